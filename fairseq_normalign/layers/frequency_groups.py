"""Tokens by how frequent they are in the training data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np


def equal_bounds(frequencies: np.ndarray, groups: int) -> list[float]:
    """Bounds between groups that have about as many tokens each, ascending.

    A frequency is in one group only, so that there may be fewer groups.

    Args:
        frequencies: of each token of a text, (N,).
    """
    shares = np.arange(1, groups) / groups
    cuts = np.unique(np.quantile(frequencies, shares, method="higher"))
    return [float(cut) for cut in cuts if cut > frequencies.min()]


def group_numbers(frequencies: np.ndarray, bounds: Sequence[float]) -> np.ndarray:
    """The group of each token, (N,): 0 below the first bound, 1 from there to the second, …"""
    return np.searchsorted(np.asarray(bounds), frequencies, side="right")


def group_names(bounds: Sequence[float]) -> list[str]:
    """``<10``, ``10–99``, ``≥100``."""
    if not bounds:
        return ["all"]
    names = [f"<{bounds[0]:g}"]
    for low, high in pairwise(bounds):
        names.append(f"{low:g}–<{high:g}")
    return [*names, f"≥{bounds[-1]:g}"]
