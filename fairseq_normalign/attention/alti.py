"""How much each token contributes to what an attention block hands on: ALTI.

A block's output is a sum of one vector for each token and a constant (see ``mixing``):

    y_i = Σ_j T_ij + constant_i,    T_ij = C(A_ij + [i=j] x_i) / σ_i

What a token contributes is how much nearer its vector brings the sum to the output (Ferrando et
al., 2022, "Measuring the Mixing of Contextual Information in the Transformer"),

    c_ij = max(0, ‖y_i‖ - ‖y_i - T_ij‖),    then divided by Σ_j c_ij,

with L1 norms; L2 is a variant. In source–target attention the residual x_i, which is the decoder's
stream, is one more column behind those of the source (Ferrando et al., 2022, "Towards Opening the
Black Box of Neural Machine Translation": ALTI+). Biases are in y_i and belong to no token.

Differs from the authors' code: σ_i is the layer norm's own, of the population variance and with ε,
so that the vectors add up to the true output; and what is masked contributes exactly nothing.

Shapes: B batch, H heads, T queries, S keys, C model width, D head width. No tensor with T·S·C
numbers is built for L2, and no more than a few megabytes of it at a time for L1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_normalign.attention.block import Block, Terms
from fairseq_normalign.attention.contributions import BLOCK, Recorded, norms


def contributions(block: Block, order: int = 1) -> Tensor:
    """c_ij as shares of their rows, (B, T, S), or (B, T, S+1) in source–target attention.

    There the last column is the residual stream. Where a whole row is clipped to 0, nothing brings
    the output nearer to what it is: the row counts as the query's own, which is the diagonal in
    self-attention, and the residual stream in source–target attention.

    Args:
        order: of the norm, 1 or 2.
    """
    output = block.output  # y, (B, T, C)
    own_vectors = block.normalised.own / block.deviation  # (B, T, C)
    own = _approach(output, own_vectors, order).clamp(min=0)  # (B, T)
    by_key = APPROACHES[order](block, output).clamp(min=0)  # (B, T, S)
    own_column = torch.ones_like(own)
    if block.self_attention:
        kept = by_key.diagonal_scatter(own, dim1=1, dim2=2)
        return _shares(kept, torch.diag_embed(own_column))
    kept = torch.cat([by_key, own.unsqueeze(-1)], dim=-1)
    nothing = torch.zeros_like(by_key)
    return _shares(kept, torch.cat([nothing, own_column.unsqueeze(-1)], dim=-1))


def head_block(block: Block, head: int) -> Block:
    """The block as one head sees it: what the other heads add is a part of the residual.

    Its vectors and constant add up to the same output (a definition of ours; the papers have no
    matrices of single heads).
    """
    recorded = block.recorded
    values, out_weight = recorded.value_parts()
    which = slice(head, head + 1)
    alone = Recorded(
        recorded.weights[:, which], values[:, which], out_weight[which], recorded.out_bias
    )
    of_head = replace(block, recorded=alone, returned=None)
    of_others = _total(block.attended) - _total(of_head.attended)
    return replace(of_head, residual=block.residual + of_others)


def _total(terms: Terms) -> Tensor:
    return terms.own + terms.context


def _shares(kept: Tensor, own_column: Tensor) -> Tensor:
    """Each cell as a share of its row; rows of zeros become those of ``own_column``."""
    total = kept.sum(-1, keepdim=True)
    some = total > 0
    return torch.where(some, kept / total.where(some, torch.ones_like(total)), own_column)


def _approach(output: Tensor, vectors: Tensor, order: int) -> Tensor:
    """‖y‖ - ‖y - T‖ of vectors that exist, (…, C) → (…)."""
    distances = (output - vectors).norm(p=order, dim=-1)
    return output.norm(p=order, dim=-1) - distances


def _approach_l1(block: Block, output: Tensor) -> Tensor:
    """‖y_i‖₁ - ‖y_i - T_ij‖₁ of all pairs but the own terms, (B, T, S), 0 where α is."""
    weights, values, out_weight = _normalised_parts(block)
    by_key = weights.permute(0, 3, 2, 1).contiguous()  # (B, S, T, H)
    sentences = zip(output, by_key, values, strict=True)
    distances = torch.stack([_distances(*sentence, out_weight) for sentence in sentences])
    length = output.abs().sum(-1, keepdim=True)  # ‖y_i‖₁, (B, T, 1)
    return (length - distances.transpose(1, 2)) * weights.sum(1).gt(0)


def _distances(output: Tensor, weights: Tensor, values: Tensor, out_weight: Tensor) -> Tensor:
    """‖y_i - T_ij‖₁ of one sentence, (S, T); the vectors T_ij exist for a few keys at a time.

    Args:
        output: y, (T, C).
        weights: (S, T, H).
        values: (H, S, D).
        out_weight: (H, D, C).
    """
    _, queries, heads = weights.shape
    size = max(1, BLOCK // (max(queries, heads) * output.shape[-1]))
    distances = []
    for some_weights, some_values in zip(
        weights.split(size), values.split(size, dim=1), strict=True
    ):
        transformed = torch.bmm(some_values, out_weight).transpose(0, 1)  # (k, H, C)
        outputs = output.expand(len(some_weights), -1, -1)
        left = torch.baddbmm(outputs, some_weights, transformed, alpha=-1)  # (k, T, C)
        distances.append(left.abs_().sum(-1))
    return torch.cat(distances)


def _approach_l2(block: Block, output: Tensor) -> Tensor:
    """‖y_i‖₂ - ‖y_i - T_ij‖₂ of all pairs but the own terms, (B, T, S).

    ‖y - T‖² = ‖y‖² - 2⟨y, T⟩ + ‖T‖²; ‖T_ij‖ comes from the inner products between heads
    (``contributions.norms``), and ⟨y_i, f_h(x_j)⟩ = ⟨W_O^hᵀ y_i, v_h(x_j)⟩ needs no vector of
    pairs. The difference of the norms is that of their squares over their sum, as small numbers
    would drown in the rounding of large ones.
    """
    weights, values, out_weight = _normalised_parts(block)
    squares = norms(weights, values, out_weight).summed.square()  # ‖T_ij‖²
    read = torch.einsum("btc,hdc->bhtd", output, out_weight)
    products = (weights * (read @ values.transpose(2, 3))).sum(1)  # ⟨y_i, T_ij⟩, (B, T, S)
    length = output.norm(dim=-1, keepdim=True)  # (B, T, 1)
    nearer = 2 * products - squares
    distance = (length.square() - nearer).clamp(min=0).sqrt()
    total = length + distance
    return nearer / total.where(total > 0, torch.ones_like(total))


APPROACHES: dict[int, Callable[[Block, Tensor], Tensor]] = {1: _approach_l1, 2: _approach_l2}


def _normalised_parts(block: Block) -> tuple[Tensor, Tensor, Tensor]:
    """α/σ, values and C(W_O), in float32 at least: Σ_h of their products is T_ij.

    C is linear, so that it can be applied to W_O instead of every vector; and so is division by
    σ_i, which the weights take.
    """
    values, out_weight = block.recorded.value_parts()
    dtype = torch.promote_types(values.dtype, torch.float32)
    weights = block.recorded.weights.to(dtype) / block.deviation.unsqueeze(1)
    return weights, values.to(dtype), block.scaled(out_weight.to(dtype))


class Origins(NamedTuple):
    """M^l: how much of each decoder state comes from each token."""

    source: Tensor  # (B, T, S)
    target: Tensor  # of the prefix, (B, T, T)


class Rollout:
    """ALTI+ from the blocks of one batch; what layers share is computed once.

    Args:
        blocks: by (kind, layer from 0): ``encoder``, ``decoder`` and ``cross``, every layer.
    """

    def __init__(self, blocks: Mapping[tuple[str, int], Block]):
        self.blocks = blocks
        self._origins: list[Origins] = []  # of the layers so far

    @cached_property
    def encoder(self) -> Tensor:
        """R, (B, S, S)."""
        layers = sorted(layer for kind, layer in self.blocks if kind == "encoder")
        return encoder_rollout([contributions(self.blocks["encoder", layer]) for layer in layers])

    def origins(self, layer: int) -> Origins:
        """M^l of a decoder layer, from 0."""
        while len(self._origins) <= layer:
            place = len(self._origins)
            own = contributions(self.blocks["decoder", place])
            cross = contributions(self.blocks["cross", place])
            below = self._origins[-1] if self._origins else start(cross)
            self._origins.append(decoder_layer(own, cross, self.encoder, below))
        return self._origins[layer]


def encoder_rollout(layers: list[Tensor]) -> Tensor:
    """R = A^L ⋯ A^1, (B, S, S), of the contributions of each layer, first to last."""
    rollout = layers[0]
    for contribution in layers[1:]:
        rollout = contribution @ rollout
    return rollout


def start(cross: Tensor) -> Origins:
    """M^0 = [0 | I], of the shape that E (B, T, S+1) tells: each state is its own token."""
    batch, queries, _ = cross.shape
    identity = torch.eye(queries, dtype=cross.dtype, device=cross.device)
    return Origins(torch.zeros_like(cross[..., :-1]), identity.expand(batch, -1, -1))


def decoder_layer(own: Tensor, cross: Tensor, encoder: Tensor, below: Origins) -> Origins:
    """M^l from D^l (B, T, T), E^l (B, T, S+1), R (B, S, S) and M^{l-1}."""
    from_source = cross[..., :-1] @ encoder  # X
    from_below = cross[..., -1:] * own  # Y
    return Origins(from_source + from_below @ below.source, from_below @ below.target)
