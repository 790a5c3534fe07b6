"""Which cells of an attention count when maxima are looked for: no padding, no future, no </s>."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Cells(NamedTuple):
    """What the queries of a batch may look at.

    Marks are </s>, the decoder's start and language tokens.
    """

    visible: Tensor  # the query is a token and sees the key, (B, T, S)
    words: Tensor  # of these, the key is no mark, (B, T, S)
    queries: Tensor  # the query is a token and no mark, (B, T)


def cells(queries: Tensor, keys: Tensor, *, causal: bool = False) -> Cells:
    """The cells of a batch that is padded on the right.

    Args:
        queries: the word of each query, (B, T): -1 for marks, -2 for padding.
        keys: the word of each key, (B, S).
        causal: whether a query sees only itself and what is before it, as in the decoder.
    """
    visible = queries.ge(-1).unsqueeze(2) & keys.ge(-1).unsqueeze(1)
    if causal:
        visible = visible.tril()
    return Cells(visible, visible & keys.ge(0).unsqueeze(1), queries.ge(0))


def maxima(weights: Tensor, allowed: Tensor) -> Tensor:
    """The key with most weight among those allowed, (B, H, T); ties to the first.

    Rows without any give 0.

    Args:
        weights: (B, H, T, S), not negative.
        allowed: (B, T, S).
    """
    return weights.masked_fill(~allowed.unsqueeze(1), -1).argmax(-1)


def choosing(seen: Cells) -> Tensor:
    """Queries whose maximum says something, (B, T): words that see two words at least."""
    return seen.queries & (seen.words.sum(-1) > 1)


def by_head(values: Tensor, queries: Tensor) -> Tensor:
    """The values (B, H, T) of some queries (B, T), (H, N)."""
    if values.shape[1] == 0:
        return values.new_empty(0, 0)
    return torch.stack([of_head[queries] for of_head in values.unbind(1)])
