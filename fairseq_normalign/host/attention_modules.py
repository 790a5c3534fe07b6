"""What one attention of a fairseq Transformer is: all that is known of its inside is in this file.

Another implementation of attention is supported by teaching it to the functions below. The last of
them look at state dicts instead of modules, and remove heads from them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import torch
from fairseq.modules import MultiheadAttention
from fairseq.modules.transformer_layer import (
    TransformerDecoderLayerBase,
    TransformerEncoderLayerBase,
)
from fairseq.modules.transformer_sentence_encoder_layer import TransformerSentenceEncoderLayer
from torch import Tensor, nn

from fairseq_normalign.errors import InputError
from fairseq_normalign.names import KINDS, Head, HeadCounts, in_stored_order

Name = tuple[str, int]  # of an attention: its kind, and its layer from 0
FairseqModule = Any  # a module whose attributes no type checker knows


def layers_of(stack: FairseqModule | None) -> list[FairseqModule]:
    """The layers of an encoder or decoder.

    By index: iterating drops layers at random under layerdrop.
    """
    stack = getattr(stack, "sentence_encoder", stack)  # RoBERTa
    layers = getattr(stack, "layers", [])
    return [layers[index] for index in range(len(layers))]


def attentions(model: nn.Module) -> dict[Name, MultiheadAttention]:
    """Every attention of the model by (kind, layer from 0)."""
    by_name = {}
    for kind, (side, attribute, *_) in KINDS.items():
        for layer, module in enumerate(layers_of(getattr(model, side, None))):
            attention = getattr(module, attribute, None)
            # Language models have no cross-attention, convolutions no self-attention.
            if attention is not None:
                by_name[kind, layer] = attention
    return by_name


def head_counts(model: nn.Module) -> dict[Name, int]:
    """How many heads each attention has, by (kind, layer from 0)."""
    return {name: head_count(attention) for name, attention in attentions(model).items()}


def head_names(model: nn.Module) -> list[Head]:
    """All heads by their names in the model that none was removed from, in the order of ``counts``.

    That order is the one of ``names.all_heads(head_counts(model))``.
    """
    names = []
    for (kind, layer), attention in attentions(model).items():
        names += [Head(kind, layer, number) for number in head_numbers(attention)]
    return names


def name_heads(model: nn.Module, order: str | None) -> None:
    """Gives heads that ``normalign order-heads`` has moved the names that they had before."""
    if order is None:
        return
    stored = in_stored_order(head_names(model), order)
    for name, attention in attentions(model).items():
        attention.head_numbers = tuple(head.head for head in stored if head[:2] == name)


def refuse_unsupported(name: Name, attention: nn.Module) -> None:
    """Refuses an attention that is not fairseq's, or gives no weights."""
    kind, layer = name
    if not isinstance(attention, MultiheadAttention) or getattr(attention, "use_xformers", False):
        raise InputError(
            f"{kind} attention of layer {layer + 1} is a {type(attention).__name__}, perhaps with "
            "xformers; expected fairseq's MultiheadAttention"
        )


def refuse_keys_of_both_sides(model: nn.Module, names: Collection[Name]) -> None:
    """Refuses decoder self-attention that also attends to the source."""
    layers = layers_of(getattr(model, "decoder", None))
    for kind, layer in names:
        if kind == "decoder" and getattr(layers[layer], "cross_self_attention", False):
            raise InputError(
                f"decoder attention of layer {layer + 1} uses --cross-self-attention: its keys are "
                "of both sides"
            )


def head_count(attention: MultiheadAttention) -> int:
    """H."""
    return attention.num_heads


def head_numbers(attention: MultiheadAttention) -> tuple[int, ...]:
    """The numbers of the heads, from 0, that they had before others were removed."""
    return getattr(attention, "head_numbers", tuple(range(head_count(attention))))


def head_width(attention: MultiheadAttention) -> int:
    """D."""
    return attention.head_dim


def query_scale(attention: MultiheadAttention) -> float:
    """What queries are multiplied by after their projection: 1/√D."""
    return attention.scaling


def projections(
    attention: MultiheadAttention,
) -> tuple[FairseqModule, FairseqModule, FairseqModule]:
    """The maps to queries, keys and values, C → H·D each."""
    return attention.q_proj, attention.k_proj, attention.v_proj


def value_projection(attention: MultiheadAttention) -> FairseqModule:
    """The map to values alone."""
    return projections(attention)[2]


def out_projection(attention: MultiheadAttention) -> FairseqModule:
    """The module of W_O and b_O."""
    return attention.out_proj


def replace_out_projection(attention: MultiheadAttention, projection: nn.Module) -> None:
    """Puts another module in its place."""
    attention.out_proj = projection


def out_weight(attention: MultiheadAttention) -> Tensor:
    """W_O as the attention used it last, (C, H·D).

    Its gates are included, which are drawn at random in training.
    """
    projection = out_projection(attention)
    return projection.last_weight if hasattr(projection, "last_weight") else projection.weight


def stored_out_weight(attention: MultiheadAttention) -> Tensor:
    """The parameter W_O, which a gated projection computes its weight from, (C, H·D)."""
    return out_projection(attention)._parameters["weight"]


def out_bias(attention: MultiheadAttention) -> Tensor | None:
    """b_O, (C,)."""
    return out_projection(attention).bias


def gate_values(attention: MultiheadAttention) -> Tensor | None:
    """The gates of the heads at test time, (H,); None if it has none."""
    projection = out_projection(attention)
    return projection.gate_values() if hasattr(projection, "gate_values") else None


def split_heads(projected: Tensor, heads: int, width: int) -> Tensor:
    """(S, B, H·D) → (B, H, S, D)."""
    return projected.view(*projected.shape[:2], heads, width).permute(1, 2, 0, 3)


def cached_values(attention: MultiheadAttention, incremental_state: dict) -> Tensor:
    """The values of all keys up to this step of incremental decoding, (B, H, S, D).

    Beams of a sentence share the values of its source: B then counts sentences.
    """
    return attention._get_input_buffer(incremental_state)["prev_value"]


@contextmanager
def _set(modules: Collection[FairseqModule], attribute: str, value: Any) -> Iterator[None]:
    """Within it, an attribute of some modules has a value."""
    before = [(module, getattr(module, attribute)) for module in modules]
    for module in modules:
        setattr(module, attribute, value)
    try:
        yield
    finally:
        for module, own in before:
            setattr(module, attribute, own)


def explicit_path(modules: Collection[MultiheadAttention]) -> AbstractContextManager[None]:
    """fairseq's own attention code instead of PyTorch's fused one, which gives no head weights."""
    return _set(modules, "skip_embed_dim_check", True)


def single_beam(model: FairseqModule) -> AbstractContextManager[None]:
    """A forward pass over sentences instead of beams, in a model that may have translated before.

    Beam search tells some models, as BART, how many beams a sentence has, and nothing takes it
    back: source–target attention would go on to take every so many sentences of a batch for one.
    """
    for_beams = [module for module in attentions(model).values() if hasattr(module, "beam_size")]
    return _set(for_beams, "beam_size", 1)


class BlockModules(NamedTuple):
    """The modules of one attention block: its attention, residual connection and layer norm."""

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
        _refuse_other_blocks(kind, layer, module)
        layer_norm = getattr(module, f"{KINDS[kind].attribute}_layer_norm")
        before = getattr(module, "normalize_before", False)
        by_name[kind, layer] = BlockModules(attention, layer_norm, before)
    return by_name


PLAIN_SUMS = (
    TransformerEncoderLayerBase.residual_connection,
    TransformerDecoderLayerBase.residual_connection,
)
# Attributes of a layer that are set if something stands between its attention and the sum, and the
# options that set them (NormFormer). They are about the decoder's self-attention.
BETWEEN = {"c_attn": "--scale-heads", "attn_ln": "--scale-attn"}


def _refuse_other_blocks(kind: str, layer: int, module: FairseqModule) -> None:
    """Refuses a layer that does not just add its attention to what it reads."""
    where = f"{kind} attention of layer {layer + 1}"
    for attribute, option in BETWEEN.items():
        if kind == "decoder" and getattr(module, attribute, None) is not None:
            raise InputError(f"{where} uses {option}, which changes it before it is added")
    has_norm = hasattr(module, f"{KINDS[kind].attribute}_layer_norm")
    is_known = hasattr(module, "normalize_before") or isinstance(
        module, TransformerSentenceEncoderLayer
    )
    addition = getattr(type(module), "residual_connection", PLAIN_SUMS[0])
    if not (has_norm and is_known and addition in PLAIN_SUMS):
        raise InputError(
            f"{where} is in a {type(module).__name__}, whose residual connection or layer norm is "
            "not known; expected a Transformer layer of fairseq"
        )


# fairseq 0.12.2's; made anew on loading
COPIES = re.compile(r"\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)$")
# Parameters of an attention, with the dimension that heads divide.
OF_HEADS = {f"{name}_proj.{part}": 0 for name in "qkv" for part in ("weight", "bias")}
OF_HEADS["out_proj.weight"] = 1
LOG_ALPHA, STEERING = "out_proj.log_alpha", "steering."

State = Mapping[str, Tensor]


def attentions_in(state: State) -> Iterator[tuple[str, int, str]]:
    """Kind, layer from 0 and prefix of every attention."""
    for name, kind in KINDS.items():
        layer = 0
        while f"{kind.prefix(layer)}out_proj.weight" in state:
            yield name, layer, kind.prefix(layer)
            layer += 1


def count_heads(state: State, head_dims: Mapping[str, int]) -> HeadCounts:
    """How many heads each attention has, by (kind, layer from 0).

    Args:
        head_dims: the width of a head, by kind.
    """
    return {
        (kind, layer): state[f"{prefix}out_proj.weight"].shape[1] // head_dims[kind]
        for kind, layer, prefix in attentions_in(state)
    }


def log_alphas(state: State) -> dict[Head, float]:
    """log α of every gated head."""
    by_head = {}
    for kind, layer, prefix in attentions_in(state):
        of_attention = state.get(prefix + LOG_ALPHA, torch.empty(0))
        for head, value in enumerate(of_attention.tolist()):
            by_head[Head(kind, layer, head)] = value
    return by_head


def scale_heads(out_weight: Tensor, gates: Tensor) -> Tensor:
    """W_O (C, H·D) with the columns of head h multiplied by g_h."""
    by_head = out_weight.unflatten(1, (len(gates), -1))  # (C, H, D)
    return (by_head * gates.to(out_weight.dtype)[:, None]).flatten(1)


def columns_of(heads: Collection[int], head_dim: int) -> Tensor:
    """The neurons of some heads, in their order."""
    first = torch.tensor(list(heads), dtype=torch.long) * head_dim  # (H)
    return (first[:, None] + torch.arange(head_dim)).flatten()  # (H·D)


def keep_heads(
    state: State, kept: Collection[Head], head_dims: Mapping[str, int]
) -> dict[str, Tensor]:
    """The state dict without all other heads.

    Their rows of W_Q, W_K, W_V and b go, and their columns of W_O.
    """
    smaller = {key: value for key, value in state.items() if not COPIES.search(key)}
    for kind, layer, prefix in attentions_in(state):
        heads = [head.head for head in kept if head[:2] == (kind, layer)]
        neurons = columns_of(heads, head_dims[kind])
        for part, dim in OF_HEADS.items():
            if prefix + part in state:
                smaller[prefix + part] = state[prefix + part].index_select(dim, neurons)
    return smaller
