"""What one attention adds up (Kobayashi et al., 2020).

An attention with heads h computes, for query t,

    ATTN_t = Σ_h Σ_s α_h[t,s] f_h(x_s) + b_O,    f_h(x) = W_O^h (W_V^h x + b_V^h)

so that its vectors α f(x), and not its weights α alone, say what it takes from x_s.

Shapes: B batch, H heads, T queries, S keys, C model width, D head width. No function here but
:func:`summed_vectors` and :func:`head_vectors` builds a tensor with both T·S and C.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

# How many numbers of f(x) exist at once: few enough for a processor's cache, whatever the batch.
BLOCK = 2**20


class Norms(NamedTuple):
    """The three norms of Kobayashi et al. (2020) for one attention."""

    transformed: Tensor  # ‖f(x)‖, (B, H, S)
    weighted: Tensor  # ‖α f(x)‖, (B, H, T, S)
    summed: Tensor  # ‖Σ_h α f(x)‖, (B, T, S)


@dataclass(eq=False)
class Recorded:
    """What one attention did in one forward pass."""

    weights: Tensor  # α, (B, H, T, S)
    values: Tensor | None = None  # W_V x + b_V, split by head, (B, H, S, D)
    out_weight: Tensor | None = None  # W_O split by head, (H, D, C)
    out_bias: Tensor | None = None  # b_O, (C,)

    @cached_property
    def norms(self) -> Norms:
        return norms(self.weights, *self.value_parts())

    def value_parts(self) -> tuple[Tensor, Tensor]:
        """Values and W_O, for which they must have been recorded."""
        assert self.values is not None and self.out_weight is not None
        return self.values, self.out_weight

    def detached(self) -> Recorded:
        """The same without the graph that it was computed in."""
        parts = (self.values, self.out_weight, self.out_bias)
        detached = [None if part is None else part.detach() for part in parts]
        return Recorded(self.weights.detach(), *detached)


def transformed_vectors(values: Tensor, out_weight: Tensor) -> Tensor:
    """f_h(x_s) = W_O^h v_h(x_s), (B, S, H, C), in float32 at least: squares of halves overflow."""
    dtype = torch.promote_types(values.dtype, torch.float32)
    return torch.einsum("bhsd,hdc->bshc", values.to(dtype), out_weight.to(dtype))


def gram_matrices(values: Tensor, out_weight: Tensor) -> Tensor:
    """G[s] = [⟨f_h(x_s), f_g(x_s)⟩], the inner products between heads: (S, B, H, H).

    In float32 at least.

    f(x) is built for a few keys at a time. Keys come before sentences, as in fairseq's tensors,
    which need no copy.
    """
    dtype = torch.promote_types(values.dtype, torch.float32)
    values, out_weight = values.to(dtype), out_weight.to(dtype)
    batch, heads, keys, _ = values.shape
    by_head = values.permute(1, 2, 0, 3).flatten(1, 2)  # (H, S·B, D)
    size = BLOCK // max(1, heads * out_weight.shape[-1])
    blocks = by_head.split(max(1, size), dim=1)
    gram = torch.cat([_gram(block, out_weight) for block in blocks])  # (S·B, H, H)
    return gram.unflatten(0, (keys, batch))


def _gram(values: Tensor, out_weight: Tensor) -> Tensor:
    """(H, N, D) and (H, D, C) → (N, H, H)."""
    heads, keys, _ = values.shape
    vectors = values.new_empty(keys, heads, out_weight.shape[-1])
    # Written in the order that the next product is fast in; to permute the result of a product
    # would copy it.
    vectors.transpose(0, 1).baddbmm_(values, out_weight, beta=0)
    return torch.bmm(vectors, vectors.transpose(1, 2))


def norms(weights: Tensor, values: Tensor, out_weight: Tensor) -> Norms:
    """All three norms from one product with W_O; shapes as in :class:`Recorded`.

    ‖α_h f_h‖ = α_h ‖f_h‖ as α ≥ 0, and ‖Σ_h α_h f_h(x_s)‖² = αᵀ G[s] α, so no vector α f(x) is
    built.
    """
    gram = gram_matrices(values, out_weight)  # (S, B, H, H)
    weights = weights.to(gram.dtype)
    by_key = weights.flatten(0, 2).t().contiguous().unflatten(1, weights.shape[:3])  # (S, B, H, T)
    summed_squared = ((gram @ by_key) * by_key).sum(2)  # (S, B, T)
    transformed_squared = gram.diagonal(dim1=-2, dim2=-1)  # (S, B, H)
    transformed = _sqrt(transformed_squared.permute(1, 2, 0).contiguous())
    weighted = weights * transformed.unsqueeze(2)
    summed = _sqrt(summed_squared.permute(1, 2, 0).contiguous())
    return Norms(transformed, weighted, summed)


def _sqrt(squared: Tensor) -> Tensor:
    """√x, with value and gradient 0 at 0 (padding) and below (rounding).

    There, PyTorch's own has gradient ∞ and nan.
    """
    if not squared.requires_grad:
        return squared.clamp(min=0).sqrt()
    positive = squared > 0
    return squared.where(positive, torch.ones_like(squared)).sqrt() * positive


def summed_vectors(recorded: Recorded) -> Tensor:
    """Σ_h α_h f_h(x_s) for every pair (t, s), (B, T, S, C). Large: T·S·C numbers a sentence."""
    vectors = transformed_vectors(*recorded.value_parts())
    return torch.einsum("bhts,bshc->btsc", recorded.weights.to(vectors.dtype), vectors)


def head_vectors(recorded: Recorded) -> Tensor:
    """α_h f_h(x_s) for every head and pair (t, s), (B, H, T, S, C): H times as large."""
    vectors = transformed_vectors(*recorded.value_parts()).transpose(1, 2)  # (B, H, S, C)
    return recorded.weights.to(vectors.dtype).unsqueeze(-1) * vectors.unsqueeze(2)


def attention_output(recorded: Recorded) -> Tensor:
    """Σ_h Σ_s α_h f_h(x_s) + b_O, (B, T, C): the attention's output, rebuilt from its parts."""
    vectors = transformed_vectors(*recorded.value_parts())
    output = torch.einsum("bhts,bshc->btc", recorded.weights.to(vectors.dtype), vectors)
    if recorded.out_bias is None:
        return output
    return output + recorded.out_bias.to(vectors.dtype)
