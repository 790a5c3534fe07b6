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
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_normalign.attention.contributions import Recorded, norms, wide


class LayerNorm(NamedTuple):
    """The parameters of a layer norm, LN(u) = C(u) / σ(u) + β; computed in float32 at least."""

    gain: Tensor  # γ, (C,)
    bias: Tensor  # β, (C,)
    eps: float  # added to the variance

    @classmethod
    def of(cls, module: Any) -> LayerNorm:
        """That of a module."""
        return cls(module.weight.detach(), module.bias.detach(), module.eps)

    def scaled(self, vectors: Tensor) -> Tensor:
        """C(u) = γ (u - mean u), (…, C)."""
        centred = vectors - vectors.mean(-1, keepdim=True)
        return centred * wide(self.gain)

    def deviation(self, vectors: Tensor) -> Tensor:
        """σ(u) = √(var u + ε), (…, 1)."""
        return (vectors.var(-1, unbiased=False, keepdim=True) + self.eps).sqrt()

    def __call__(self, vectors: Tensor) -> Tensor:
        """LN(u), (…, C)."""
        gain, bias = wide(self.gain), wide(self.bias)
        return F.layer_norm(vectors, gain.shape, gain, bias, self.eps)


@dataclass(eq=False)
class Block:
    """What one attention block did in one forward pass over whole sentences.

    All that is computed from it is in float32 at least. Terms, (2, B, T, C), are a sum over tokens:
    that of the query's own token, then the sum of all others.
    """

    recorded: Recorded
    residual: Tensor  # x, which is added to the attention's output, (B, T, C)
    layer_norm: LayerNorm | None  # behind the sum; None where it is before the attention
    self_attention: bool  # whether query i and key i are the same token
    inputs: Tensor | None = None  # what the values are made of, (B, S, C); None without heads

    @cached_property
    def own_weights(self) -> Tensor:
        """α_h[i,i], (B, H, T); 0 if no key is the query's own token."""
        weights = wide(self.recorded.weights)
        if not self.self_attention:
            return torch.zeros_like(weights[..., 0])
        assert weights.shape[2] == weights.shape[3], "expected whole sentences"
        return weights.diagonal(dim1=2, dim2=3)

    @cached_property
    def attended(self) -> Tensor:
        """Terms of the attention's output without b_O: A_ii, and Σ_j A_ij."""
        weights, values, out_weight = self.recorded.parts()

        def mapped(by_head: Tensor) -> Tensor:  # Σ_h W_O^h v_h, (B, H, T, D) → (B, T, C)
            return by_head.transpose(1, 2).flatten(2) @ out_weight.flatten(0, 1)

        if not self.self_attention:
            context = mapped(weights @ values)
            return torch.stack([torch.zeros_like(context), context])
        own = mapped(self.own_weights.unsqueeze(-1) * values)
        of_others = weights - torch.diag_embed(self.own_weights)
        return torch.stack([own, mapped(of_others @ values)])

    @property
    def with_residual(self) -> Tensor:
        """The same terms with x_i in that of its own token."""
        own, context = self.attended
        return torch.stack([own + wide(self.residual), context])

    @property
    def normalised(self) -> Tensor:
        """Terms of the block's output without its constant: F_i."""
        return self.scaled(self.with_residual) / self.deviation

    def scaled(self, vectors: Tensor) -> Tensor:
        """C(u) = γ (u - mean u), (…, C); u itself where no layer norm is behind the sum."""
        return vectors if self.layer_norm is None else self.layer_norm.scaled(vectors)

    @cached_property
    def sum(self) -> Tensor:
        """Σ_j A_ij + b_O + x_i, (B, T, C): what a layer norm behind the sum reads."""
        return self.with_residual.sum(0) + self._out_bias

    @cached_property
    def deviation(self) -> Tensor:
        """σ_i = √(var(Σ_j A_ij + b_O + x_i) + ε), (B, T, 1); 1 without a layer norm behind."""
        if self.layer_norm is None:
            return torch.ones_like(self.sum[..., :1])
        return self.layer_norm.deviation(self.sum)

    @property
    def constant(self) -> Tensor:
        """What belongs to no token: b_O and β, (B, T, C)."""
        from_bias = self.scaled(self._out_bias) / self.deviation
        return from_bias if self.layer_norm is None else from_bias + wide(self.layer_norm.bias)

    @property
    def output(self) -> Tensor:
        """y_i = Σ_j F_i(x_j) + constant_i, (B, T, C): the block's output, from its terms."""
        return self.normalised.sum(0) + self.constant

    @property
    def _out_bias(self) -> Tensor:
        bias = self.recorded.out_bias
        return torch.zeros_like(wide(self.residual[0, 0])) if bias is None else wide(bias)


def pair_norms(block: Block) -> tuple[Tensor, Tensor]:
    """‖F_i(x_j)‖ for all pairs, (B, T, S), and of the query's own term, (B, T).

    C is linear, so that it can be applied to W_O instead of every A_ij; the norms of sums over
    heads are then those of an attention (``contributions.norms``). The residual changes nothing
    but the own terms. These are the diagonal in self-attention; in source–target attention they
    are the residual's alone and belong to no key.
    """
    weights, values, out_weight = block.recorded.parts()
    pairs = norms(weights, values, block.scaled(out_weight)).summed / block.deviation
    own = block.normalised[0].norm(dim=-1)
    if block.self_attention:
        pairs = pairs.diagonal_scatter(own, dim1=1, dim2=2)
    return pairs, own


def mixing_ratios(block: Block) -> Tensor:
    """The share of context in what each query gets, by each of ANALYSES, (5, B, T).

    A query without any context, as that of a sentence of one token or of an attention that has
    lost all its heads, mixes nothing: 0. ATTNRES-W is the mean of weights and identity (Abnar and
    Zuidema, 2020).

    In pre-LN, nothing follows the sum: ATTNRESLN-N is ATTNRES-N, with the layer norm inside f.
    """
    weights = wide(block.recorded.weights)
    heads = max(1, weights.shape[1])
    own = block.own_weights.sum(1) / heads  # means over heads, (B, T)
    context = (weights.sum(-1) - block.own_weights).sum(1).clamp(min=0) / heads
    ratios = [
        share(context, own),
        _share_of_norms(block.attended),
        share(context, own + 1),
        _share_of_norms(block.with_residual),
        _share_of_norms(block.normalised),
    ]
    return torch.stack(ratios)


def _share_of_norms(terms: Tensor) -> Tensor:
    own, context = terms.norm(dim=-1)
    return share(context, own)


def share(context: Tensor, own: Tensor) -> Tensor:
    """context / (context + own), and 0 where there is nothing at all."""
    total = context + own
    return torch.where(total == 0, 0, context / total)
