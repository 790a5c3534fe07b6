"""What one attention of a fairseq Transformer is: all that is known of its inside is in this file.

Another implementation of attention is supported by teaching it to the functions below.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from fairseq_normalign.errors import InputError
from fairseq_normalign.names import KINDS, Head

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


def refuse_unsupported(name: Name, attention: nn.Module) -> None:
    """Refuses an attention that gives no weights, or whose keys are not the tokens."""
    kind, layer = name
    where = f"{kind} attention of layer {layer + 1}"
    if not isinstance(attention, MultiheadAttention):
        raise InputError(
            f"{where} is a {type(attention).__name__}; expected fairseq's MultiheadAttention"
        )
    if getattr(attention, "use_xformers", False):
        option = f"--{KINDS[kind].side}-xformers-att-config"
        raise InputError(f"{where} uses {option}, which returns no attention weights")
    if attention.bias_k is not None or attention.add_zero_attn:
        raise InputError(f"{where} uses add_bias_kv or add_zero_attn: keys that are no token")


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
def explicit_path(modules: Collection[MultiheadAttention]) -> Iterator[None]:
    """fairseq's own attention code instead of PyTorch's fused one, which gives no head weights."""
    before = [(attention, attention.skip_embed_dim_check) for attention in modules]
    for attention in modules:
        attention.skip_embed_dim_check = True
    try:
        yield
    finally:
        for attention, value in before:
            attention.skip_embed_dim_check = value


@contextmanager
def single_beam(model: FairseqModule) -> Iterator[None]:
    """A forward pass over sentences instead of beams, in a model that may have translated before.

    Beam search tells some models, as BART, how many beams a sentence has, and nothing takes it
    back: source–target attention would go on to take every so many sentences of a batch for one.
    """
    for_beams = [module for module in model.modules() if hasattr(module, "beam_size")]
    sizes = [(module, module.beam_size) for module in for_beams]
    for module in for_beams:
        module.beam_size = 1
    try:
        yield
    finally:
        for module, size in sizes:
            module.beam_size = size
