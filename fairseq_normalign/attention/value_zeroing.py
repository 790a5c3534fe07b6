"""How much a state changes when the value of one token is zero (Mohebbi et al., 2023).

Value zeroing keeps the weights α of an attention and runs the layer again without the value of
token j. Only the attention's output changes, by Σ_h α_h[i,j] f_h(x_j), so that no second pass is
needed: with u_i the sum that enters the layer norm,

    z_i = LN(u_i),    z_i without j = LN(u_i - Σ_h α_h[i,j] f_h(x_j)),

and in pre-LN the same without LN. The feed-forward net and its layer norm may follow, as in the
paper. The score is 1 - cos of both states, as a share of its row.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from fairseq_normalign.attention.block import Block
from fairseq_normalign.attention.contributions import over_pairs
from fairseq_normalign.attention.layer import FeedForward

LEAST = 1e-30  # what rows are divided by at least


def value_zeroing(
    block: Block, feed_forward: FeedForward | None = None, heads: slice = slice(None)
) -> Tensor:
    """The share of each key in what zero values change, (B, T, S).

    Args:
        feed_forward: behind the block; None for the state before it.
        heads: whose values are zeroed together.
    """

    def state(sums: Tensor) -> Tensor:
        states = sums if block.layer_norm is None else block.layer_norm(sums)
        return F.normalize(states if feed_forward is None else feed_forward(states), dim=-1)

    def change(vectors: Tensor, sums: Tensor, unchanged: Tensor) -> Tensor:
        # 1 - cos as half the squared distance on the unit sphere: small changes keep their digits.
        return (state(sums - vectors) - unchanged).square().sum(-1) / 2

    parts = block.recorded.cut(heads).parts()
    changes = over_pairs(change, *parts, block.sum, state(block.sum))
    return changes / changes.sum(-1, keepdim=True).clamp(min=LEAST)
