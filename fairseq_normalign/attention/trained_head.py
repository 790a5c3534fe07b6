"""An alignment head: an attention of its own on the states of a model that stays as it is.

After Shift-AET (Chen et al., 2020), whose alignment module has queries and keys alone. Its shares
are trained on links, and the translation model never sees them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class AlignmentHead(NamedTuple):
    """The weights of a head: D wide, on queries of the width Q and keys of the width K.

    Keys have no bias: it would add the same to the scores of all keys, and shares would stay.
    """

    query: Tensor  # (D, Q)
    query_bias: Tensor  # (D,)
    key: Tensor  # (D, K)

    @classmethod
    def random(
        cls, queries: int, keys: int, *, width: int, generator: torch.Generator
    ) -> AlignmentHead:
        """A head to begin with: uniform weights as of Glorot and Bengio (2010), halved in variance.

        Args:
            queries: Q.
            keys: K.
            width: D.
        """
        weights = []
        for inputs in (queries, keys):
            bound = math.sqrt(3 / (inputs + width))
            uniform = torch.rand(width, inputs, generator=generator)
            weights.append((2 * uniform - 1) * bound)
        return cls(weights[0], torch.zeros(width), weights[1])


def log_shares(head: AlignmentHead, queries: Tensor, keys: Tensor, padding: Tensor) -> Tensor:
    """log softmax_s((W_q h_t + b_q)ᵀ W_k x_s / √D): the logarithm of each key's share of a query.

    Args:
        queries: h, (B, T, Q).
        keys: x, (B, S, K).
        padding: true where a key is none, (B, S).

    Returns:
        (B, T, S); −∞ for padding.
    """
    projected_queries = queries @ head.query.t() + head.query_bias  # (B, T, D)
    projected_keys = keys @ head.key.t()  # (B, S, D)
    scores = projected_queries @ projected_keys.transpose(1, 2) / math.sqrt(len(head.query))
    return scores.masked_fill(padding.unsqueeze(1), -math.inf).log_softmax(dim=-1)


def with_neighbours(states: Tensor) -> Tensor:
    """Each state, the one before it and the one behind it, (B, T, C) → (B, T, 3 · C).

    Differs from Chen et al. (2020), who take the row that reads a token alone. The row before
    predicts the token, and the row behind knows what follows it. Where there is none, there are
    zeros; so rows of padding must be 0.
    """
    padded = functional.pad(states, (0, 0, 1, 1))
    return torch.cat([states, padded[:, :-2], padded[:, 2:]], dim=-1)


def link_loss(shares: Tensor, links: Tensor, weights: Tensor) -> Tensor:
    """−Σ_t w_t log Σ_{s linked to t} A[t, s] / Σ_t w_t.

    Differs from Chen et al. (2020, Eq. 6) and Garg et al. (2019), who take the mean of log A[t, s]
    over the links of t: they want all pieces of a linked word to have the same share, where one
    piece that has it all is as good.

    Args:
        shares: log A, (B, T, S).
        links: true where there is a link, (B, T, S).
        weights: of each query, (B, T); one that has a weight has a link.
    """
    counting = weights > 0
    linked = shares[counting].masked_fill(~links[counting], -math.inf)
    weight = weights[counting]
    return -(weight * linked.logsumexp(dim=-1)).sum() / weight.sum().clamp(min=1e-9)
