"""Which tokens of a text are looked at: drawn at random, the same for every layer and model."""

from __future__ import annotations

import numpy as np


def balanced(labels: np.ndarray, *, most: int, quota: int, rng: np.random.Generator) -> np.ndarray:
    """As many tokens of each of the most frequent labels.

    Args:
        labels: of all tokens of a text, (N,), integers from 0.
        most: how many labels.
        quota: how many tokens of each; labels with fewer do not count.

    Returns:
        Places in ``labels``, ascending.
    """
    counts = np.bincount(labels)
    by_frequency = np.argsort(-counts, kind="stable")
    frequent = [label for label in by_frequency[:most] if counts[label] >= quota]
    drawn = [some(np.flatnonzero(labels == label), quota, rng) for label in frequent]
    return np.sort(np.concatenate(drawn)) if drawn else np.array([], dtype=np.intp)


def some(places: np.ndarray, quota: int, rng: np.random.Generator) -> np.ndarray:
    """At most ``quota`` of some places, ascending."""
    return np.sort(rng.permutation(places)[:quota])
