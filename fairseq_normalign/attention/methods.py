"""The table of soft methods: what each target token takes from each source token.

A new method is one function, in a file of its own, and one entry in :data:`METHODS`; every command,
the task and the Python API take what is in the table. See CONTRIBUTING for a worked example.

This module imports no PyTorch: ``--help`` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fairseq_normalign.attention import attention_methods
from fairseq_normalign.attention.extract import PIECE_ARGMAX
from fairseq_normalign.attention.soft import STEPS
from fairseq_normalign.decimals import decimal
from fairseq_normalign.errors import InputError
from fairseq_normalign.late import late

if TYPE_CHECKING:
    from fairseq_normalign.attention.block import Block
    from fairseq_normalign.attention.contributions import Recorded
    from fairseq_normalign.host.pairs import Pair
    from fairseq_normalign.host.teacher_forcing import TeacherForcing

# What can be recorded of the source–target attention in the shared forward pass.
WEIGHTS = frozenset({"weights"})  # α
VALUES = WEIGHTS | {"values"}  # and what norms are made of: values and W_O
BLOCKS = VALUES | {"blocks"}  # and the residual connection and layer norm around it
ALL_BLOCKS = BLOCKS | {"all blocks"}  # the same of every attention and layer of the model
OWN_PASS: frozenset[str] = frozenset()  # the method runs the model by itself

# The rule sets of layer-wise relevance propagation, and the method of each.
LRP_RULES = {"lrp": "voita", "lrp-epsilon": "epsilon", "lrp-attnlrp": "attnlrp"}
LRP_EPSILON = 1e-5  # as in the code of Voita et al. (2021)

SMOOTHGRAD_SAMPLES = 30  # Ding et al. (2019)
A_FILE = ""  # the default of a parameter that is a file: there is none
SHIFT_ATT = "shift-att"  # the method that two models together have an aligner of


@dataclass(frozen=True, eq=False)
class Batch:
    """Sentence pairs that a method is computed for, and what the attention did on them."""

    forcing: TeacherForcing
    pairs: list[Pair]
    recording: Mapping[tuple[str, int], Recorded]  # of the layers that are asked for
    blocks: Mapping[tuple[str, int], Block] = field(default_factory=dict)  # if they are needed


class Method(NamedTuple):
    """One way to say what each target token takes from each source token.

    ``compute(batch, layer, head)`` returns (B, T, S), not negative: row t is the decoder's step t,
    column s is source token s, both sides padded on the right. Layer and head count from 0, the
    head among those that the layer has left; the layer is None for a method of the whole model,
    the head is None for all heads together.
    """

    compute: Callable[..., Any]
    summary: str
    needs: frozenset[str] = WEIGHTS  # WEIGHTS, VALUES, BLOCKS, ALL_BLOCKS or OWN_PASS
    layers: bool = True  # whether each decoder layer has a matrix of its own
    heads: bool = True  # whether each head has one, too
    steps: tuple[str, ...] = tuple(STEPS)  # which steps it can answer
    parameter: str | None = None  # what a number behind the name sets, as in lrp-epsilon:0.001
    # of this parameter, which is a whole number if this is an int, and a file if it is A_FILE
    default: float | str | None = None
    extract: str = "argmax"  # how its links are taken unless the user names a rule
    eos: bool = True  # whether </s> takes part, or is left out whatever the options say


def _lrp(rules: str) -> Method:
    return Method(
        partial(late("attention.pair_relevance:relevance"), rules=rules),
        f"|R| of source tokens for the predicted token, by LRP through all layers, rules {rules}",
        needs=OWN_PASS,
        layers=False,
        steps=("output",),
        parameter="epsilon",
        default=LRP_EPSILON,
    )


def _gradient(name: str, summary: str, **parameter: Any) -> Method:
    return Method(
        late(f"attention.gradient_methods:{name}"),
        summary,
        needs=OWN_PASS,
        layers=False,
        steps=("output",),
        **parameter,
    )


METHODS: dict[str, Method] = {
    "weights": Method(attention_methods.weights, "α, averaged over heads"),
    "norms": Method(
        attention_methods.norms,
        "‖Σ_h αf(x)‖, the vectors of all heads summed (Kobayashi et al., 2020)",
        needs=VALUES,
    ),
    "head-norms": Method(
        attention_methods.head_norms, "‖αf(x)‖, averaged over heads", needs=VALUES
    ),
    **{name: _lrp(rules) for name, rules in LRP_RULES.items()},
    "grad-input": _gradient(
        "grad_input",
        "⟨x, ∂ log p/∂x⟩ of source embeddings, if positive, as shares (Ding et al., 2019)",
    ),
    "saliency": _gradient(
        "saliency", "mean |∂ log p/∂x| of source embeddings, as shares (Li et al., 2016)"
    ),
    "smoothgrad": _gradient(
        "smoothgrad",
        "grad-input with gradients at noisy embeddings, averaged over samples (Ding et al., 2019)",
        parameter="samples",
        default=SMOOTHGRAD_SAMPLES,
    ),
    "alti": Method(
        partial(late("attention.source_shares:contribution"), order=1),
        "what encoder states contribute to the output of the source–target block, by L1 distance "
        "(ALTI, Ferrando et al., 2022)",
        needs=BLOCKS,
    ),
    "alti-l2": Method(
        partial(late("attention.source_shares:contribution"), order=2),
        "the same by L2 distance",
        needs=BLOCKS,
    ),
    "alti-encoder": Method(
        late("attention.source_shares:through_encoder"),
        "alti of source tokens, through all encoder layers",
        needs=ALL_BLOCKS,
    ),
    "alti-rollout": Method(
        late("attention.source_shares:from_source"),
        "the share of source tokens in decoder states, through all layers (ALTI+)",
        needs=ALL_BLOCKS,
        heads=False,
    ),
    SHIFT_ATT: Method(
        late("alignment.shift_att:shift_att"),
        "α, averaged over heads, without </s>; final full stops take each other (Shift-Att, Chen "
        "et al., 2020)",
        steps=("input",),
        extract=PIECE_ARGMAX,
        eos=False,
    ),
    "aligner": Method(
        late("attention.trained_head:aligner"),
        "shares by a head that normalign train-aligner has trained on links (after Shift-AET, Chen "
        "et al., 2020)",
        needs=OWN_PASS,
        layers=False,
        steps=("input",),
        parameter="path",
        default=A_FILE,
    ),
}


def method_of(spec: str) -> Method:
    """The method that ``NAME``, ``NAME:NUMBER`` or ``NAME:FILE`` names, its parameter being set."""
    name, colon, number = spec.partition(":")
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}; expected one of: {', '.join(METHODS)}")
    method = METHODS[name]
    if method.parameter is None:
        if colon:
            raise InputError(f"bad method {spec!r}; {name} takes no number")
        return method
    needed = method.default == A_FILE
    value = _value(spec, number, method) if colon or needed else method.default
    return method._replace(compute=partial(method.compute, **{method.parameter: value}))


def full_spec(spec: str) -> str:
    """A method's name with the number or file that it is computed with, for signatures."""
    name, _, number = spec.partition(":")
    method = METHODS[name]
    if method.parameter is None:
        return name
    value = _value(spec, number, method) if number else method.default
    if isinstance(value, str):
        return f"{name}:{Path(value).name}"
    return f"{name}:{value}" if isinstance(value, int) else f"{name}:{value:g}"


def _value(spec: str, text: str, method: Method) -> float | str:
    """The number or file behind the name of a method that takes one."""
    if method.default == A_FILE:
        return _file(spec, text)
    return _whole_number(spec, text) if isinstance(method.default, int) else _number(spec, text)


def _file(spec: str, text: str) -> str:
    if not Path(text).is_file():
        name = spec.partition(":")[0]
        raise InputError(f"bad method {spec!r}; expected {name}:FILE with a file that is there")
    return text


def _whole_number(spec: str, text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) <= 6
    if not is_number or not int(text):
        raise InputError(
            f"bad method {spec!r}; expected a whole number from 1 to 999999 behind the colon"
        )
    return int(text)


def _number(spec: str, text: str) -> float:
    try:
        value = decimal(text)
    except ValueError:
        value = 0.0
    if not 1e-30 <= value <= 1:
        raise InputError(f"bad method {spec!r}; expected a number from 1e-30 to 1 behind the colon")
    return value


def check_head_method(spec: str) -> None:
    """Refuses a method that single heads do not have."""
    method = method_of(spec)
    if method.layers and method.heads:
        return
    owner = "whole layers" if method.layers else "the whole model"
    expected = [name for name, other in METHODS.items() if other.layers and other.heads]
    raise InputError(f"method {spec} is of {owner}, not of a head; expected: {', '.join(expected)}")


def methods_without_files() -> list[str]:
    """The methods whose name is enough."""
    return [name for name, method in METHODS.items() if method.default != A_FILE]


def layered_methods() -> list[str]:
    """The methods by layer that look at the source–target attention alone: those of tables.

    Methods of whole blocks cost more; they are in tables that name them.
    """
    layered = [name for name, method in METHODS.items() if method.layers]
    return [name for name in layered if "blocks" not in METHODS[name].needs]
