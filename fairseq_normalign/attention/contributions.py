"""What one attention adds up (Kobayashi et al., 2020).

An attention with heads h computes, for query t,

    ATTN_t = Σ_h Σ_s α_h[t,s] f_h(x_s) + b_O,    f_h(x) = W_O^h (W_V^h x + b_V^h)

so that its vectors α f(x), and not its weights α alone, say what it takes from x_s.

Shapes: B batch, H heads, T queries, S keys, C model width, D head width. No function here but
:meth:`Recorded.summed_vectors` and ``head_vectors`` builds a tensor with both T·S and C.
"""

from __future__ import annotations

from collections.abc import Callable
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
        return norms(*self.parts())

    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Weights, values and W_O, in float32 at least; values must have been recorded."""
        assert self.values is not None and self.out_weight is not None
        values = wide(self.values)
        # Weights of a model in float64 are in float32: so fairseq's softmax is.
        return self.weights.to(values.dtype), values, self.out_weight.to(values.dtype)

    def cut(
        self,
        heads: slice | list[int],
        sentences: slice = slice(None),
        queries: int | None = None,
        keys: int | None = None,
    ) -> Recorded:
        """What some heads did on some sentences, without padding on their right."""
        weights = self.weights[sentences, heads, :queries, :keys]
        if self.values is None or self.out_weight is None:
            return Recorded(weights)
        values = self.values[sentences, heads, :keys]
        return Recorded(weights, values, self.out_weight[heads], self.out_bias)

    def summed_vectors(self) -> Tensor:
        """Σ_h α_h f_h(x_s) for every pair (t, s), (B, T, S, C). Large: T·S·C numbers a sentence."""
        weights, values, out_weight = self.parts()
        transformed = torch.einsum("bhsd,hdc->bshc", values, out_weight)
        return torch.einsum("bhts,bshc->btsc", weights, transformed)

    def head_vectors(self) -> Tensor:
        """α_h f_h(x_s) for every head and pair (t, s), (B, H, T, S, C): H times as large."""
        weights, values, out_weight = self.parts()
        transformed = torch.einsum("bhsd,hdc->bhsc", values, out_weight)
        return weights.unsqueeze(-1) * transformed.unsqueeze(2)

    def detached(self) -> Recorded:
        """The same without the graph that it was computed in."""
        parts = (self.values, self.out_weight, self.out_bias)
        detached = [None if part is None else part.detach() for part in parts]
        return Recorded(self.weights.detach(), *detached)


def wide(tensor: Tensor) -> Tensor:
    """In float32 at least: squares of halves overflow."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def gram_matrices(values: Tensor, out_weight: Tensor) -> Tensor:
    """G[s] = [⟨f_h(x_s), f_g(x_s)⟩], the inner products between heads: (S, B, H, H).

    f(x) is built for a few keys at a time. Keys come before sentences, as in fairseq's tensors,
    which need no copy.
    """
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
    """All three norms from one product with W_O; arguments as in :meth:`Recorded.parts`.

    ‖α_h f_h‖ = α_h ‖f_h‖ as α ≥ 0, and ‖Σ_h α_h f_h(x_s)‖² = αᵀ G[s] α, so no vector α f(x) is
    built.
    """
    gram = gram_matrices(values, out_weight)  # (S, B, H, H)
    by_key = weights.flatten(0, 2).t().contiguous().unflatten(1, weights.shape[:3])  # (S, B, H, T)
    summed_squared = ((gram @ by_key) * by_key).sum(2)  # (S, B, T)
    transformed_squared = gram.diagonal(dim1=-2, dim2=-1)  # (S, B, H)
    transformed = _sqrt(transformed_squared.permute(1, 2, 0).contiguous())
    weighted = weights * transformed.unsqueeze(2)
    summed = _sqrt(summed_squared.permute(1, 2, 0).contiguous())
    return Norms(transformed, weighted, summed)


def over_pairs(
    measure: Callable[..., Tensor],
    weights: Tensor,
    values: Tensor,
    out_weight: Tensor,
    *of_queries: Tensor,
) -> Tensor:
    """A number for each vector Σ_h α_h f_h(x_s), (B, T, S); vectors exist for a few keys at a time.

    Args:
        measure: of vectors (k, T, C) and what their queries have → (k, T). It may return several
            numbers for each, (…, k, T): then they are (…, B, T, S).
        weights: and values and W_O, as in :meth:`Recorded.parts`.
        of_queries: (B, T, …) each.
    """
    by_key = weights.permute(0, 3, 2, 1).contiguous()  # (B, S, T, H)
    size = max(1, BLOCK // (max(by_key.shape[2:]) * out_weight.shape[-1]))
    sentences = []
    for keys, of_keys, *of_sentence in zip(by_key, values, *of_queries, strict=True):
        measured = []
        for some, of_some in zip(keys.split(size), of_keys.split(size, dim=1), strict=True):
            transformed = torch.bmm(of_some, out_weight).transpose(0, 1)  # (k, H, C)
            measured.append(measure(torch.bmm(some, transformed), *of_sentence))
        sentences.append(torch.cat(measured, dim=-2))  # (…, S, T)
    return torch.stack(sentences, dim=-3).transpose(-1, -2)


def _sqrt(squared: Tensor) -> Tensor:
    """√x, with value and gradient 0 at 0 (padding) and below (rounding).

    There, PyTorch's own has gradient ∞ and nan.
    """
    if not squared.requires_grad:
        return squared.clamp(min=0).sqrt()
    positive = squared > 0
    return squared.where(positive, torch.ones_like(squared)).sqrt() * positive
