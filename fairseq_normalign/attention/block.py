"""What a whole attention block adds up, and how much of it is context (Kobayashi et al., 2021).

A block is an attention with its residual connection and its layer norm. Behind the sum (post-LN),

    y_i = LN(Σ_j A_ij + b_O + x_i),    A_ij = Σ_h α_h[i,j] f_h(x_j),

and before the attention (pre-LN), whose f then reads the normalised vectors,

    y_i = Σ_j A_ij + b_O + x_i.

Either is a sum over the tokens j and a constant: y_i = Σ_j F_i(x_j) + constant_i, with

    F_i(x_j) = C(A_ij + [i=j] x_i) / σ_i,    C(u) = γ (u - mean u),

where σ_i is the deviation that the layer norm divides by; without a layer norm behind the sum, C
is the identity and σ_i is 1. In source–target attention no key is the query's own token: the
residual x_i, which is the decoder's state, is a term of its own (a definition of ours).

The mixing ratio of a query is ‖context‖ / (‖context‖ + ‖own‖), where own is the term of its own
token, and context is the sum of all others.

Shapes: B batch, H heads, T queries, S keys, C model width, D head width. Nothing here builds a
tensor with both T·S and C.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_normalign.attention.contributions import Recorded, norms


class LayerNorm(NamedTuple):
    """The parameters of a layer norm."""

    gain: Tensor  # γ, (C,)
    bias: Tensor  # β, (C,)
    eps: float  # added to the variance


class Terms(NamedTuple):
    """A sum over tokens, the query's own apart from all others, (B, T, C) each."""

    own: Tensor
    context: Tensor


@dataclass(eq=False)
class Block:
    """What one attention block did in one forward pass over whole sentences."""

    recorded: Recorded
    residual: Tensor  # x, which is added to the attention's output, (B, T, C)
    layer_norm: LayerNorm | None  # behind the sum; None where it is before the attention
    self_attention: bool  # whether query i and key i are the same token
    inputs: Tensor | None = None  # what the values are made of, (B, S, C); None without heads
    returned: Tensor | None = None  # the attention's output with b_O, (B, T, C)

    @cached_property
    def attended(self) -> Terms:
        """Σ_j A_ij: the attention's output without b_O, in float32 at least.

        Where the output is known in such precision, the context is what it has beside the own
        term; otherwise it is added up.
        """
        own = self._own_term()
        if self.returned is None or self.returned.dtype != own.dtype:
            return Terms(own, self._added_context())
        context = self.returned - self._out_bias(own) - own
        _, context_weights = self.weighed
        return Terms(own, context * context_weights.gt(0).unsqueeze(-1))

    def _own_term(self) -> Tensor:
        """A_ii = Σ_h α_h[i,i] f_h(x_i), (B, T, C); 0 if no key is the query's own token."""
        values, weights = self._in_single()
        if not self.self_attention:
            return values.new_zeros(self.residual.shape)
        return self._mapped(self._own_weights(weights).unsqueeze(-1) * values)

    def _added_context(self) -> Tensor:
        """Σ_j A_ij over all other tokens, (B, T, C)."""
        values, weights = self._in_single()
        if self.self_attention:
            weights = weights - torch.diag_embed(self._own_weights(weights))
        return self._mapped(weights @ values)

    def _in_single(self) -> tuple[Tensor, Tensor]:
        """Values and weights in float32 at least."""
        values, _ = self.recorded.value_parts()
        dtype = torch.promote_types(values.dtype, torch.float32)
        return values.to(dtype), self.recorded.weights.to(dtype)

    def _mapped(self, by_head: Tensor) -> Tensor:
        """Σ_h W_O^h v_h, (B, H, T, D) → (B, T, C)."""
        _, out_weight = self.recorded.value_parts()
        joined = by_head.transpose(1, 2).flatten(2)  # (B, T, H·D)
        return joined @ out_weight.to(by_head.dtype).flatten(0, 1)

    def _own_weights(self, weights: Tensor) -> Tensor:
        """α_h[i,i], (B, H, T)."""
        if not self.self_attention:
            return weights.new_zeros(weights.shape[:3])
        assert weights.shape[2] == weights.shape[3], "expected whole sentences"
        return weights.diagonal(dim1=2, dim2=3)

    @cached_property
    def weighed(self) -> tuple[Tensor, Tensor]:
        """Weights of the own token and of all others, means over heads, (B, T) each."""
        weights = self.recorded.weights
        weights = weights.to(torch.promote_types(weights.dtype, torch.float32))
        heads = max(1, weights.shape[1])
        own_weights = self._own_weights(weights)
        context = weights.sum(-1) - own_weights
        return own_weights.sum(1) / heads, context.sum(1).clamp(min=0) / heads

    @cached_property
    def with_residual(self) -> Terms:
        """The same with x_i in the term of its own token."""
        own, context = self.attended
        return Terms(own + self.residual.to(own.dtype), context)

    @property
    def normalised(self) -> Terms:
        """F_i but for σ_i, by which both terms are divided."""
        own, context = self.with_residual
        return Terms(self.scaled(own), self.scaled(context))

    def scaled(self, vectors: Tensor) -> Tensor:
        """C(u) = γ (u - mean u), (…, C); u itself where no layer norm is behind the sum."""
        if self.layer_norm is None:
            return vectors
        centred = vectors - vectors.mean(-1, keepdim=True)
        return centred * self.layer_norm.gain.to(vectors.dtype)

    @cached_property
    def deviation(self) -> Tensor:
        """σ_i = √(var(Σ_j A_ij + b_O + x_i) + ε), (B, T, 1); 1 without a layer norm behind."""
        own, context = self.with_residual
        if self.layer_norm is None:
            return own.new_ones(*own.shape[:2], 1)
        summed = own + context + self._out_bias(own)
        variance = summed.var(-1, unbiased=False, keepdim=True)
        return (variance + self.layer_norm.eps).sqrt()

    @property
    def constant(self) -> Tensor:
        """What belongs to no token: b_O and β, (B, T, C)."""
        own, _ = self.attended
        from_bias = self.scaled(self._out_bias(own)) / self.deviation
        if self.layer_norm is None:
            return from_bias
        return from_bias + self.layer_norm.bias.to(own.dtype)

    @property
    def output(self) -> Tensor:
        """y_i = Σ_j F_i(x_j) + constant_i, (B, T, C): the block's output, from its terms."""
        own, context = self.normalised
        return (own + context) / self.deviation + self.constant

    def _out_bias(self, like: Tensor) -> Tensor:
        bias = self.recorded.out_bias
        return like.new_zeros(like.shape[-1]) if bias is None else bias.to(like.dtype)


def pair_norms(block: Block) -> tuple[Tensor, Tensor]:
    """‖F_i(x_j)‖ for all pairs, (B, T, S), and of the query's own term, (B, T).

    C is linear, so that it can be applied to W_O instead of every A_ij; the norms of sums over
    heads are then those of an attention (``contributions.norms``). The residual changes nothing
    but the own terms. These are the diagonal in self-attention; in source–target attention they
    are the residual's alone and belong to no key.
    """
    values, out_weight = block.recorded.value_parts()
    dtype = torch.promote_types(values.dtype, torch.float32)
    pairs = norms(block.recorded.weights, values, block.scaled(out_weight.to(dtype))).summed
    pairs = pairs / block.deviation
    own = block.normalised.own.norm(dim=-1) / block.deviation.squeeze(-1)
    if block.self_attention:
        pairs = pairs.diagonal_scatter(own, dim1=1, dim2=2)
    return pairs, own


def mixing_ratios(block: Block) -> Tensor:
    """The share of context in what each query gets, by each of ANALYSES, (5, B, T).

    A query without any context, as that of a sentence of one token or of an attention that has
    lost all its heads, mixes nothing: 0. σ_i divides both terms and so falls out. ATTNRES-W is the
    mean of weights and identity (Abnar and Zuidema, 2020).

    In pre-LN, nothing follows the sum: ATTNRESLN-N is ATTNRES-N, with the layer norm inside f.
    """
    own_weight, context_weight = block.weighed
    ratios = [
        share(context_weight, own_weight),
        _share_of_norms(block.attended),
        share(context_weight, own_weight + 1),
        _share_of_norms(block.with_residual),
        _share_of_norms(block.normalised),
    ]
    return torch.stack(ratios)


def _share_of_norms(terms: Terms) -> Tensor:
    return share(terms.context.norm(dim=-1), terms.own.norm(dim=-1))


def share(context: Tensor, own: Tensor) -> Tensor:
    """context / (context + own), and 0 where there is nothing at all."""
    total = context + own
    return context / total.where(total > 0, torch.ones_like(total))
