"""Whether two scores put heads in the same order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from fairseq_normalign.heads.names import Head

FEWEST = 3  # two points always correlate


class Correlation(NamedTuple):
    rho: float | None  # None if it is undefined: too few heads, or all of the same rank
    heads: int


def spearman(first: np.ndarray, second: np.ndarray) -> float | None:
    """Spearman's ρ: Pearson's correlation of the ranks, ties having their mean rank."""
    if len(first) < FEWEST:
        return None
    ranks = np.stack([rankdata(first), rankdata(second)])
    ranks -= ranks.mean(1, keepdims=True)
    spread = np.sqrt((ranks**2).sum(1).prod())
    return float((ranks[0] * ranks[1]).sum() / spread) if spread else None


def correlations(
    scores: Mapping[str, Mapping[Head, float]], heads: Collection[Head]
) -> dict[tuple[str, str], Correlation]:
    """ρ of all pairs of scores, over those of the heads that have both."""
    found = {}
    for one, other in combinations(scores, 2):
        both = [head for head in heads if head in scores[one] and head in scores[other]]
        columns = (
            np.array([scores[name][head] for head in both], dtype=np.float64)
            for name in (one, other)
        )
        found[one, other] = Correlation(spearman(*columns), len(both))
    return found


def correlations_within_layers(
    scores: Mapping[str, Mapping[Head, float]], heads: Collection[Head]
) -> dict[tuple[str, str], Correlation]:
    """The mean over layers of the ρ of each layer's heads: for scores that compare the heads of one
    layer alone."""
    layers = dict.fromkeys(head[:2] for head in heads)
    by_layer = [
        correlations(scores, [head for head in heads if head[:2] == layer]) for layer in layers
    ]
    found = {}
    for pair in combinations(scores, 2):
        defined = [layer[pair] for layer in by_layer if layer[pair].rho is not None]
        mean = float(np.mean([one.rho for one in defined])) if defined else None
        found[pair] = Correlation(mean, sum(one.heads for one in defined))
    return found
