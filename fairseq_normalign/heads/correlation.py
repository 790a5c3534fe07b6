"""Whether two scores put heads in the same order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
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


def spearman(first: np.ndarray, second: np.ndarray) -> float | None:
    """Spearman's ρ: Pearson's correlation of the ranks, ties having their mean rank."""
    if len(first) < FEWEST:
        return None
    ranks = np.stack([rankdata(first), rankdata(second)])
    ranks -= ranks.mean(1, keepdims=True)
    spread = np.sqrt((ranks**2).sum(1).prod())
    if not spread:
        return None
    return float((ranks[0] * ranks[1]).sum() / spread)


def correlations(scores: Scores, heads: Collection[Head]) -> Pairs:
    """ρ of all pairs of scores, over those of the heads that have both."""
    pairs: Pairs = {}
    for names in combinations(scores, 2):
        first, second = (scores[name] for name in names)
        both = [head for head in heads if head in first and head in second]
        of_first = np.array([first[head] for head in both], dtype=np.float64)
        of_second = np.array([second[head] for head in both], dtype=np.float64)
        pairs[names] = Correlation(spearman(of_first, of_second), len(both))
    return pairs


def correlations_within_layers(scores: Scores, heads: Collection[Head]) -> Pairs:
    """The mean over layers of the ρ of each layer's heads, with its interval.

    For scores that compare the heads of one layer alone.
    """
    by_layer: dict[tuple[str, int], list[Head]] = {}
    for head in heads:
        by_layer.setdefault((head.kind, head.layer), []).append(head)
    layers = [correlations(scores, members) for members in by_layer.values()]
    pairs: Pairs = {}
    for pair in combinations(scores, 2):
        defined = [layer[pair] for layer in layers if layer[pair].rho is not None]
        rhos = [layer.rho for layer in defined if layer.rho is not None]
        mean = float(np.mean(rhos)) if rhos else None
        number = sum(layer.heads for layer in defined)
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
