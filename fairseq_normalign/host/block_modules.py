"""What one attention block of a fairseq layer is: its residual connection and its layer norm."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from fairseq.modules import MultiheadAttention
from fairseq.modules.transformer_layer import (
    TransformerDecoderLayerBase,
    TransformerEncoderLayerBase,
)
from fairseq.modules.transformer_sentence_encoder_layer import TransformerSentenceEncoderLayer

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import FairseqModule, Name, attentions, layers_of
from fairseq_normalign.names import KINDS

PLAIN_SUMS = (
    TransformerEncoderLayerBase.residual_connection,
    TransformerDecoderLayerBase.residual_connection,
)
# Attributes of a layer that are set if something stands between its attention and the sum, and the
# options that set them (NormFormer). They are about the decoder's self-attention.
BETWEEN = {"c_attn": "--scale-heads", "attn_ln": "--scale-attn"}


class BlockModules(NamedTuple):
    """The modules of one attention block."""

    attention: MultiheadAttention
    layer_norm: FairseqModule
    before: bool  # whether the layer norm is before the attention


def block_modules(
    model: FairseqModule, kinds: Collection[str] = tuple(KINDS)
) -> dict[Name, BlockModules]:
    """The blocks of some kinds of attention, by (kind, layer from 0).

    Blocks that are no sum of attention and residual are refused.
    """
    by_name = {}
    for (kind, layer), attention in attentions(model).items():
        if kind not in kinds:
            continue
        module = layers_of(getattr(model, KINDS[kind].side))[layer]
        _refuse_unsupported((kind, layer), module)
        layer_norm = getattr(module, f"{KINDS[kind].attribute}_layer_norm")
        before = getattr(module, "normalize_before", False)
        by_name[kind, layer] = BlockModules(attention, layer_norm, before)
    return by_name


def _refuse_unsupported(name: Name, module: FairseqModule) -> None:
    """Refuses a layer whose attention is not just added to what it reads."""
    kind, number = name
    where = f"{kind} attention of layer {number + 1}"
    is_known = hasattr(module, "normalize_before") or isinstance(
        module, TransformerSentenceEncoderLayer
    )
    if not (is_known and hasattr(module, f"{KINDS[kind].attribute}_layer_norm")):
        raise InputError(
            f"{where} is in a {type(module).__name__}, which has no residual connection and layer "
            "norm that are known; expected a Transformer layer of fairseq"
        )
    if kind == "decoder":
        for attribute, option in BETWEEN.items():
            if getattr(module, attribute, None) is not None:
                raise InputError(f"{where} uses {option}, which changes it before it is added")
    sums = getattr(type(module), "residual_connection", PLAIN_SUMS[0])
    if sums not in PLAIN_SUMS:
        raise InputError(
            f"{where} is in a {type(module).__name__}, which has a residual connection of its own"
        )
