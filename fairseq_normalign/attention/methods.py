"""The table of soft methods: what each target token takes from each source token.

A new method is one function and one entry in :data:`METHODS`; every command, the task and the
Python API take what is in the table. See docs/add-a-method.md for a worked example.

Importing this module imports no PyTorch, as ``--help`` reads the table: functions import what they
need when they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fairseq_normalign.attention.extract import PIECE_ARGMAX
from fairseq_normalign.attention.soft import STEPS
from fairseq_normalign.errors import InputError
from fairseq_normalign.strict_json import decimal
from fairseq_normalign.text.words import final_punctuation, settle_punctuation

if TYPE_CHECKING:
    from torch import Tensor

    from fairseq_normalign.attention.block import Block
    from fairseq_normalign.attention.contributions import Recorded
    from fairseq_normalign.host.pairs import Pair
    from fairseq_normalign.host.teacher_forcing import TeacherForcing

# What a method needs to be recorded of the source–target attention in the shared forward pass; each
# includes those before it.
OWN_PASS = 0  # nothing: the method runs the model by itself
WEIGHTS = 1  # α
VALUES = 2  # and what norms are made of: values and W_O
BLOCKS = 3  # and the residual connection and layer norm around it
ALL_BLOCKS = 4  # and the same of every attention and layer of the model

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

    @cached_property
    def encoder_rollout(self) -> Tensor:
        """ALTI of all layers of the encoder."""
        from fairseq_normalign.attention.alti import encoder_rollout

        return encoder_rollout(self.blocks)

    @cached_property
    def source_rollout(self) -> list[Tensor]:
        """ALTI+ by layer: layers share what lies below."""
        from fairseq_normalign.attention.alti import source_rollout

        return source_rollout(self.blocks, self.encoder_rollout)


class Method(NamedTuple):
    """One way to say what each target token takes from each source token.

    ``compute(batch, layer, head)`` returns (B, T, S), not negative: row t is the decoder's step t,
    column s is source token s, both sides padded on the right. Layer and head count from 0, the
    head among those that the layer has left; the layer is None for a method of the whole model,
    the head is None for all heads together.
    """

    compute: Callable[..., Any]
    summary: str
    needs: int = WEIGHTS  # OWN_PASS, WEIGHTS, VALUES, BLOCKS or ALL_BLOCKS
    layers: bool = True  # whether each decoder layer has a matrix of its own
    heads: bool = True  # whether each head has one, too
    steps: tuple[str, ...] = tuple(STEPS)  # which steps it can answer
    parameter: str | None = None  # what a number behind the name sets, as in lrp-epsilon:0.001
    # of this parameter, which is a whole number if this is an int, and a file if it is A_FILE
    default: float | str | None = None
    extract: str = "argmax"  # how its links are taken unless the user names a rule
    eos: bool = True  # whether </s> takes part, or is left out whatever the options say


def weights(batch: Batch, layer: int, head: int | None) -> Tensor:
    """α of one head, or averaged over heads."""
    return _of_heads(batch.recording["cross", layer].weights, head)


def norms(batch: Batch, layer: int, head: int | None) -> Tensor:
    """‖α_h f_h(x)‖ of one head, or ‖Σ_h α_h f_h(x)‖ of all (Kobayashi et al., 2020, Eq. 3)."""
    recorded = batch.recording["cross", layer]
    return recorded.norms.summed if head is None else recorded.norms.weighted[:, head]


def head_norms(batch: Batch, layer: int, head: int | None) -> Tensor:
    """‖α_h f_h(x)‖ averaged over heads: heads that pull in opposite directions do not cancel."""
    return _of_heads(batch.recording["cross", layer].norms.weighted, head)


def _of_heads(by_head: Tensor, head: int | None) -> Tensor:
    """What one head has, or the mean over heads; 0 where pruning has left none."""
    if head is not None:
        return by_head[:, head]
    return by_head.sum(dim=1) / max(1, by_head.shape[1])


def shift_att(batch: Batch, layer: int, head: int | None) -> np.ndarray:
    """α averaged over heads, </s> left out, final punctuation settled (Chen et al., 2020).

    It answers for step ``input``: the row behind a token's own place reads it.
    """
    averaged = weights(batch, layer, head).float().cpu().numpy()
    matrices = []
    for matrix, pair in zip(averaged, batch.pairs, strict=True):
        columns = final_punctuation(pair.source.text, pair.source.words)
        places = final_punctuation(pair.target.text, pair.target.words)
        rows = [place + STEPS["input"] for place in places]
        settled = settle_punctuation(matrix, rows, columns)
        marks = [place for place, word in enumerate(pair.source.words) if word < 0]
        settled[:, marks] = 0
        matrices.append(settled)
    return np.stack(matrices)


def alti(batch: Batch, layer: int, head: int | None, *, order: int = 1) -> Tensor:
    """E[:, :S]: what states of the encoder contribute to the block of source–target attention.

    The share of the decoder's own stream is no part of it, so that rows add up to less than 1. Of
    one head, what the others add counts as that stream (Ferrando et al., 2022).

    Args:
        order: of the norm, 1 or 2.
    """
    from fairseq_normalign.attention.alti import contributions

    return contributions(_block(batch, layer, head), order)[..., :-1]


def _block(batch: Batch, layer: int, head: int | None) -> Block:
    """A source–target attention block, perhaps as one of its heads sees it."""
    from fairseq_normalign.attention.alti import head_block

    block = batch.blocks["cross", layer]
    return block if head is None else head_block(block, head)


def alti_encoder(batch: Batch, layer: int, head: int | None) -> Tensor:
    """X = E[:, :S] R: the same of source tokens, through all layers of the encoder."""
    return alti(batch, layer, head) @ batch.encoder_rollout


def alti_rollout(batch: Batch, layer: int, head: None = None) -> Tensor:
    """M_source: the share of each source token in the decoder's states, through all layers."""
    return batch.source_rollout[layer]


def layer_norms(batch: Batch, layer: int, head: int | None) -> Tensor:
    """‖·‖ of what each source token adds to the output of the whole layer."""
    from fairseq_normalign.attention.layer import Layer, feed_forward

    net = feed_forward(batch.forcing.model, "decoder", layer)
    return Layer(_block(batch, layer, head), net).pair_norms()[-1]


def value_zeroing(
    batch: Batch, layer: int, head: int | None, *, whole_layer: bool = False
) -> Tensor:
    """How much the state changes without a source token's value, as shares of a row.

    Args:
        whole_layer: the state behind the feed-forward net, not that of the attention block.
    """
    from fairseq_normalign.attention.layer import feed_forward, value_zeroing

    net = feed_forward(batch.forcing.model, "decoder", layer) if whole_layer else None
    heads = slice(None) if head is None else slice(head, head + 1)
    return value_zeroing(batch.blocks["cross", layer], net, heads)


def lrp(
    batch: Batch, layer: None = None, head: None = None, *, rules: str, epsilon: float
) -> np.ndarray:
    """|R| of each source token for the logit of each reference token.

    Args:
        rules: a name in ``attention.lrp_rules.RULES``.
        epsilon: what keeps divisors from 0; it moves the result.
    """
    from fairseq_normalign.attention.pair_relevance import source_relevance

    return source_relevance(batch.forcing, batch.pairs, f"{rules}:{epsilon!r}")


def gradients(
    batch: Batch, layer: None = None, head: None = None, *, score: str, samples: int = 0
) -> np.ndarray:
    """Shares by gradients of log p(y_t) by source embeddings, or by several noisy ones.

    Args:
        score: a name in ``attention.gradient_methods.SCORES``.
        samples: of noise (SmoothGrad).
    """
    from fairseq_normalign.attention.gradient_methods import gradient_shares

    return gradient_shares(batch.forcing, batch.pairs, score, samples)


def aligner(batch: Batch, layer: None = None, head: None = None, *, path: str) -> Tensor:
    """The share of each source token for each step of the decoder, by a trained head.

    Args:
        path: the file of the head.
    """
    from fairseq_normalign.attention.trained_head import trained_shares

    return trained_shares(path, batch.forcing, batch.pairs)


# Methods that explain predictions by the whole model, in passes of their own.
_of_predictions = partial(Method, needs=OWN_PASS, layers=False, steps=("output",))


def _lrp(rules: str) -> Method:
    return _of_predictions(
        partial(lrp, rules=rules),
        f"|R| of source tokens for the predicted token, by LRP through all layers, rules {rules}",
        parameter="epsilon",
        default=LRP_EPSILON,
    )


METHODS: dict[str, Method] = {
    "weights": Method(weights, "α, averaged over heads"),
    "norms": Method(
        norms, "‖Σ_h αf(x)‖, the vectors of all heads summed (Kobayashi et al., 2020)", needs=VALUES
    ),
    "head-norms": Method(head_norms, "‖αf(x)‖, averaged over heads", needs=VALUES),
    **{name: _lrp(rules) for name, rules in LRP_RULES.items()},
    "grad-input": _of_predictions(
        partial(gradients, score="products"),
        "⟨x, ∂ log p/∂x⟩ of source embeddings, if positive, as shares (Ding et al., 2019)",
    ),
    "saliency": _of_predictions(
        partial(gradients, score="magnitudes"),
        "mean |∂ log p/∂x| of source embeddings, as shares (Li et al., 2016)",
    ),
    "smoothgrad": _of_predictions(
        partial(gradients, score="products"),
        "grad-input with gradients at noisy embeddings, averaged over samples (Ding et al., 2019)",
        parameter="samples",
        default=SMOOTHGRAD_SAMPLES,
    ),
    "alti": Method(
        alti,
        "what encoder states contribute to the output of the source–target block, by L1 distance "
        "(ALTI, Ferrando et al., 2022)",
        needs=BLOCKS,
    ),
    "alti-l2": Method(partial(alti, order=2), "the same by L2 distance", needs=BLOCKS),
    "alti-encoder": Method(
        alti_encoder, "alti of source tokens, through all encoder layers", needs=ALL_BLOCKS
    ),
    "alti-rollout": Method(
        alti_rollout,
        "the share of source tokens in decoder states, through all layers (ALTI+)",
        needs=ALL_BLOCKS,
        heads=False,
    ),
    "layer-norms": Method(
        layer_norms,
        "‖·‖ of what source tokens add to the layer's output, through its feed-forward net (after "
        "Kobayashi et al., 2024)",
        needs=BLOCKS,
    ),
    "value-zeroing": Method(
        value_zeroing,
        "1 - cos of the block's output with and without a source token's value (after Mohebbi et "
        "al., 2023)",
        needs=BLOCKS,
    ),
    "value-zeroing-ff": Method(
        partial(value_zeroing, whole_layer=True),
        "the same of the layer's output, behind the feed-forward net",
        needs=BLOCKS,
    ),
    SHIFT_ATT: Method(
        shift_att,
        "α, averaged over heads, without </s>; final full stops take each other (Shift-Att, Chen "
        "et al., 2020)",
        steps=("input",),
        extract=PIECE_ARGMAX,
        eos=False,
    ),
    "aligner": Method(
        aligner,
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
    method, value = _parsed(spec)
    if method.parameter is None:
        return method
    return method._replace(compute=partial(method.compute, **{method.parameter: value}))


def full_spec(spec: str) -> str:
    """A method's name with the number or file that it is computed with, for signatures."""
    name = spec.partition(":")[0]
    _, value = _parsed(spec)
    if value is None:
        return name
    shown = Path(value).name if isinstance(value, str) else f"{value:g}"
    return f"{name}:{shown}"


def _parsed(spec: str) -> tuple[Method, float | str | None]:
    """The method that is named, and the value of its parameter, if it takes one."""
    name, colon, text = spec.partition(":")
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}; choose from: {', '.join(METHODS)}")
    method = METHODS[name]
    if method.default == A_FILE:
        if not Path(text).is_file():
            raise InputError(f"method {spec!r}: no such file; write {name}:FILE")
        return method, text
    if not colon:
        return method, method.default
    if method.parameter is None:
        raise InputError(f"method {spec!r}: {name} takes no number")
    try:
        value = decimal(text)
    except ValueError:
        value = 0.0
    if isinstance(method.default, int):
        if not (text.isdigit() and 1 <= value <= 999999):
            raise InputError(f"method {spec!r}: {name} takes a whole number from 1 to 999999")
        return method, int(value)
    if not 1e-30 <= value <= 1:
        raise InputError(f"method {spec!r}: {name} takes a number from 1e-30 to 1")
    return method, value


def check_head_method(spec: str) -> None:
    """Refuses a method that single heads do not have."""
    method = method_of(spec)
    if method.layers and method.heads:
        return
    owner = "whole layers" if method.layers else "the whole model"
    others = [name for name, other in METHODS.items() if other.layers and other.heads]
    raise InputError(
        f"method {spec} is of {owner}, not of a head; choose from: {', '.join(others)}"
    )


def methods_without_files() -> list[str]:
    """The methods whose name is enough."""
    return [name for name, method in METHODS.items() if method.default != A_FILE]
