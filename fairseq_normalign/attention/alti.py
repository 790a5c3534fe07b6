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

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial, reduce

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_normalign.attention.block import Block
from fairseq_normalign.attention.contributions import norms, over_pairs
from fairseq_normalign.attention.recorder import check_finite, recorded_blocks
from fairseq_normalign.host.attention_modules import Name
from fairseq_normalign.host.batches import Progress, map_batches
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.names import KINDS


def contributions(block: Block, order: int = 1) -> Tensor:
    """c_ij as shares of their rows, (B, T, S), or (B, T, S+1) in source–target attention.

    There the last column is the residual stream. Where a whole row is clipped to 0, nothing brings
    the output nearer to what it is: the row counts as the query's own, which is the diagonal in
    self-attention, and the residual stream in source–target attention.

    Args:
        order: of the norm, 1 or 2.
    """
    output = block.output  # y, (B, T, C)
    distances = (output - block.normalised[0]).norm(p=order, dim=-1)
    own = (output.norm(p=order, dim=-1) - distances).clamp(min=0)  # (B, T)
    approach = _approach_l1 if order == 1 else _approach_l2
    by_key = approach(block, output).clamp(min=0)  # (B, T, S)
    everything = torch.ones_like(own)
    if block.self_attention:
        kept = by_key.diagonal_scatter(own, dim1=1, dim2=2)
        nothing_nearer = torch.diag_embed(everything)
    else:
        kept = torch.cat([by_key, own.unsqueeze(-1)], dim=-1)
        nothing_nearer = F.pad(everything.unsqueeze(-1), (by_key.shape[-1], 0))
    total = kept.sum(-1, keepdim=True)
    return torch.where(total > 0, kept / total, nothing_nearer)


def head_block(block: Block, head: int) -> Block:
    """The block as one head sees it: what the other heads add is a part of the residual.

    Its vectors and constant add up to the same output (a definition of ours; the papers have no
    matrices of single heads).
    """
    of_head = replace(block, recorded=block.recorded.cut(slice(head, head + 1)))
    of_others = block.attended.sum(0) - of_head.attended.sum(0)
    return replace(of_head, residual=block.residual + of_others)


def _approach_l1(block: Block, output: Tensor) -> Tensor:
    """‖y_i‖₁ - ‖y_i - T_ij‖₁ of all pairs but the own terms, (B, T, S), 0 where α is."""

    def distance(vectors: Tensor, output: Tensor) -> Tensor:
        return vectors.sub_(output).abs_().sum(-1)

    parts = _normalised_parts(block)
    distances = over_pairs(distance, *parts, output)
    length = output.abs().sum(-1, keepdim=True)  # ‖y_i‖₁, (B, T, 1)
    return (length - distances) * parts[0].sum(1).gt(0)


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
    return torch.where(total > 0, nearer / total, nearer)


def _normalised_parts(block: Block) -> tuple[Tensor, Tensor, Tensor]:
    """α/σ, values and C(W_O), in float32 at least: Σ_h of their products is T_ij.

    C is linear, so that it can be applied to W_O instead of every vector; and so is division by
    σ_i, which the weights take.
    """
    weights, values, out_weight = block.recorded.parts()
    return weights / block.deviation.unsqueeze(1), values, block.scaled(out_weight)


def encoder_rollout(blocks: Mapping[Name, Block]) -> Tensor:
    """R = A^L ⋯ A^1 of all blocks of the encoder, (B, S, S)."""
    layers = sorted(layer for kind, layer in blocks if kind == "encoder")
    by_layer = [contributions(blocks["encoder", layer]) for layer in layers]
    return reduce(lambda below, layer: layer @ below, by_layer)


def source_rollout(blocks: Mapping[Name, Block], encoder: Tensor) -> list[Tensor]:
    """M^l: the share of each source token in the states of the decoder's layers, (B, T, S) each.

    From a layer's contributions D^l (B, T, T) and E^l (B, T, S+1), and from M^0 = 0,

        M^l = E^l[:, :S] R + (E^l[:, S] D^l) M^{l-1}.

    What a row has less than 1 is the share of the target's prefix.

    Args:
        blocks: of all attentions, up to some layer of the decoder.
        encoder: R.
    """
    sources: list[Tensor] = []
    while ("cross", len(sources)) in blocks:
        cross = contributions(blocks["cross", len(sources)])
        source = cross[..., :-1] @ encoder
        if sources:
            own = contributions(blocks["decoder", len(sources)])
            source = source + (cross[..., -1:] * own) @ sources[-1]
        sources.append(source)
    return sources


def source_shares(
    forcing: TeacherForcing,
    pairs: Iterable[Pair],
    *,
    max_tokens: int = 4000,
    progress: Progress | None = None,
) -> Iterator[np.ndarray]:
    """How much of each decoder state comes from the source, and not from the prefix, by ALTI+.

    Args:
        forcing: of an encoder–decoder model.
        max_tokens: of a batch; changes only the speed.
        progress: called with the number of pairs that were finished since its last call.

    Yields:
        For each pair, in input order, (L, T): from 0 to 1, by decoder layer and step. Step t reads
        target token t - 1, or the start mark, and predicts token t.
    """
    run = partial(batch_source_shares, forcing)
    return map_batches(pairs, run, max_tokens=max_tokens, progress=progress)


def batch_source_shares(forcing: TeacherForcing, pairs: list[Pair]) -> Iterator[np.ndarray]:
    """The same for one batch."""
    blocks = recorded_blocks(forcing, pairs, tuple(KINDS))
    sources = source_rollout(blocks, encoder_rollout(blocks))
    by_layer = [source.sum(-1) for source in sources]
    shares = torch.stack(by_layer, dim=1)  # (B, L, T)
    for of_pair, pair in zip(shares, pairs, strict=True):
        unpadded = of_pair[:, : len(pair.target.tokens)]
        check_finite(unpadded[None], [pair.where])
        yield unpadded.float().cpu().numpy()
