"""The table of soft methods: what each target token takes from each source token.

A new method is one function, in a file of its own, and one entry in :data:`METHODS`; every command,
the task and the Python API take what is in the table. See CONTRIBUTING for a worked example.

This module imports no PyTorch: ``--help`` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from fairseq_normalign.alignment.soft import STEPS
from fairseq_normalign.analysis import attention_methods
from fairseq_normalign.errors import InputError
from fairseq_normalign.late import late

if TYPE_CHECKING:
    from fairseq_normalign.host.pairs import Pair
    from fairseq_normalign.host.teacher_forcing import TeacherForcing
    from fairseq_normalign.norms.contributions import Recorded

# What can be recorded of the source–target attention in the shared forward pass.
WEIGHTS = frozenset({"weights"})  # α
VALUES = WEIGHTS | {"values"}  # and what norms are made of: values and W_O
OWN_PASS: frozenset[str] = frozenset()  # the method runs the model by itself

# The rule sets of layer-wise relevance propagation, and the method of each.
LRP_RULES = {"lrp": "voita", "lrp-epsilon": "epsilon", "lrp-attnlrp": "attnlrp"}
LRP_EPSILON = 1e-5  # as in the code of Voita et al. (2021)


@dataclass(frozen=True, eq=False)
class Batch:
    """Sentence pairs that a method is computed for, and what the attention did on them."""

    forcing: TeacherForcing
    pairs: list[Pair]
    recording: Mapping[tuple[str, int], Recorded]  # of the layers that are asked for


class Method(NamedTuple):
    """One way to say what each target token takes from each source token.

    ``compute(batch, layer, head)`` returns (B, T, S), not negative: row t is the decoder's step t,
    column s is source token s, both sides padded on the right. Layer and head count from 0, the
    head among those that the layer has left; the layer is None for a method of the whole model,
    the head is None for all heads together.
    """

    compute: Callable[..., Any]
    summary: str
    needs: frozenset[str] = WEIGHTS  # WEIGHTS, VALUES or OWN_PASS
    layers: bool = True  # whether each decoder layer, and each head, has a matrix of its own
    steps: tuple[str, ...] = tuple(STEPS)  # which steps it can answer
    parameter: str | None = None  # what a number behind the name sets, as in lrp-epsilon:0.001
    default: float | None = None  # of this parameter


def _lrp(rules: str) -> Method:
    return Method(
        partial(late("analysis.lrp_method:relevance"), rules=rules),
        f"|R| of source tokens for the predicted token, by LRP through all layers, rules {rules}",
        needs=OWN_PASS,
        layers=False,
        steps=("output",),
        parameter="epsilon",
        default=LRP_EPSILON,
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
}


def method_of(spec: str) -> Method:
    """The method that ``NAME`` or ``NAME:NUMBER`` names, its parameter being set."""
    name, colon, number = spec.partition(":")
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}; expected one of: {', '.join(METHODS)}")
    method = METHODS[name]
    if method.parameter is None:
        if colon:
            raise InputError(f"bad method {spec!r}; {name} takes no number")
        return method
    value = _number(spec, number) if colon else method.default
    return method._replace(compute=partial(method.compute, **{method.parameter: value}))


def full_spec(spec: str) -> str:
    """A method's name with the number that it is computed with, for signatures."""
    name, _, number = spec.partition(":")
    method = METHODS[name]
    if method.parameter is None:
        return name
    value = float(number) if number else method.default
    return f"{name}:{value:g}"


def _number(spec: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1e-30 <= value <= 1:
        raise InputError(f"bad method {spec!r}; expected a number from 1e-30 to 1 behind the colon")
    return value


def check_head_method(spec: str) -> None:
    """Refuses a method that single heads do not have."""
    if not method_of(spec).layers:
        expected = ", ".join(layered_methods())
        raise InputError(
            f"method {spec} is of the whole model, not of a head; expected: {expected}"
        )


def layered_methods() -> list[str]:
    """The methods that have a matrix for each layer."""
    return [name for name, method in METHODS.items() if method.layers]
