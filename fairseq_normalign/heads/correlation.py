"""Whether two scores put heads in the same order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from fairseq_normalign.names import Head

FEWEST = 3  # heads: two points always correlate; layers: two say little of a mean
SAMPLES = 2000  # of the bootstrap
SEED = 12345

Scores = Mapping[str, Mapping[Head, float]]
Pairs = dict[tuple[str, str], "Correlation"]


class Correlation(NamedTuple):
    rho: float | None  # None if it is undefined: too few heads, or all of the same rank
    heads: int
    interval: tuple[float, float] | None = None  # 95 %, of a mean over layers


def spearman(first: ArrayLike, second: ArrayLike) -> float | None:
    """Spearman's ρ: Pearson's correlation of the ranks, ties having their mean rank."""
    if np.size(first) < FEWEST or min(np.ptp(first), np.ptp(second)) == 0:
        return None
    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


def correlations(scores: Scores, heads: Collection[Head]) -> Pairs:
    """ρ of all pairs of scores, over those of the heads that have both."""
    pairs: Pairs = {}
    for (name, first), (other, second) in combinations(scores.items(), 2):
        both = [head for head in heads if head in first and head in second]
        rho = spearman([first[head] for head in both], [second[head] for head in both])
        pairs[name, other] = Correlation(rho, len(both))
    return pairs


def correlations_within_layers(scores: Scores, heads: Collection[Head]) -> Pairs:
    """The mean over layers of the ρ of each layer's heads, with its interval.

    For scores that compare the heads of one layer alone.
    """
    layers = []
    for _, of_layer in groupby(heads, key=lambda head: head[:2]):
        layers.append(correlations(scores, list(of_layer)))
    pairs: Pairs = {}
    for pair in combinations(scores, 2):
        rhos, number = [], 0
        for layer in layers:
            rho, count, _ = layer[pair]
            if rho is not None:
                rhos.append(rho)
                number += count
        mean = float(np.mean(rhos)) if rhos else None
        pairs[pair] = Correlation(mean, number, interval(rhos))
    return pairs


def interval(rhos: Sequence[float]) -> tuple[float, float] | None:
    """A 95 % bootstrap interval of the mean over layers; None for fewer than three."""
    if len(rhos) < FEWEST:
        return None
    random = np.random.default_rng(SEED)
    draws = random.integers(len(rhos), size=(SAMPLES, len(rhos)))
    means = np.asarray(rhos)[draws].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)
