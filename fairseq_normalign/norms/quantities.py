"""What can be taken from one attention, sentence by sentence: weights, norms or the vectors
themselves.

A new quantity is one line in :data:`QUANTITIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_normalign.norms.contributions import Recorded, summed_vectors, weighted_vectors


class Quantity(NamedTuple):
    formula: str
    axes: tuple[str, ...]  # of one layer and one sentence: head, query, key, width
    compute: Callable[[Recorded], Tensor]  # (B, *axes)


def _stacked_vectors(recorded: Recorded) -> Tensor:
    return torch.stack(list(weighted_vectors(recorded)), dim=1)


QUANTITIES = {
    "weights": Quantity("α", ("head", "query", "key"), lambda recorded: recorded.weights),
    "head-norms": Quantity(
        "‖αf(x)‖", ("head", "query", "key"), lambda recorded: recorded.norms.weighted
    ),
    "norms": Quantity("‖Σ_h αf(x)‖", ("query", "key"), lambda recorded: recorded.norms.summed),
    "transformed-norms": Quantity(
        "‖f(x)‖", ("head", "key"), lambda recorded: recorded.norms.transformed
    ),
    "vectors": Quantity("Σ_h αf(x)", ("query", "key", "width"), summed_vectors),
    "head-vectors": Quantity("αf(x)", ("head", "query", "key", "width"), _stacked_vectors),
}


def of_sentence(
    recorded: Recorded, index: int, queries: int, keys: int, heads: Sequence[int]
) -> Recorded:
    """One sentence of a batch, without its padding on the right, and those of its heads, ascending;
    B = 1."""
    heads = (
        slice(None) if len(heads) == recorded.weights.shape[1] else list(heads)
    )  # a view if it can be
    weights = recorded.weights[index : index + 1, heads, :queries, :keys]
    if recorded.values is None:
        return Recorded(weights)
    return Recorded(
        weights, recorded.values[index : index + 1, heads, :keys], recorded.out_weight[heads]
    )
