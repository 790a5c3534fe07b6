"""Mutual information between tokens and the clusters of their states."""

from __future__ import annotations

import numpy as np

SHUFFLES = 5


def mutual_information(labels: np.ndarray, clusters: np.ndarray) -> float:
    """Σ p(v, k) ln p(v, k) / (p(v) p(k)), in nats, from counts.

    The estimate is too high, by about (K − 1)(V − 1) / 2N: compare only estimates of as many
    tokens N, clusters K and labels V, and look at that of shuffled labels.

    Args:
        labels: v of each token, (N,), integers from 0.
        clusters: k of each token, (N,), integers from 0.
    """
    table = np.zeros((labels.max() + 1, clusters.max() + 1))
    np.add.at(table, (labels, clusters), 1)
    joint = table / table.sum()
    independent = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    seen = joint > 0
    return float((joint[seen] * np.log(joint[seen] / independent[seen])).sum())


def shuffled_information(
    labels: np.ndarray, clusters: np.ndarray, rng: np.random.Generator
) -> float:
    """The mean estimate if tokens change their labels at random: what it is too high by."""
    estimates = [mutual_information(rng.permutation(labels), clusters) for _ in range(SHUFFLES)]
    return float(np.mean(estimates))
