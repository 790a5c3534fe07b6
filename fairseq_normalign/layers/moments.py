"""Mean, deviation and extremes of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from fairseq_normalign.runs.joins import joined_moments


@dataclass(frozen=True)
class Moments:
    """Of several quantities at once, each of so many numbers (see ``runs.joins``)."""

    numbers: np.ndarray  # count, mean, Σ (x - mean)², smallest and largest, (5, Q)

    @property
    def count(self) -> int:
        """How many numbers each quantity has; all have as many."""
        return int(self.numbers[0, 0])

    @property
    def mean(self) -> np.ndarray:
        return self.numbers[1]

    @property
    def low(self) -> np.ndarray:
        return self.numbers[3]

    @property
    def high(self) -> np.ndarray:
        return self.numbers[4]

    @property
    def deviation(self) -> np.ndarray:
        """The population's standard deviation."""
        return np.sqrt(self.numbers[2] / np.maximum(1, self.numbers[0]))

    @property
    def variation(self) -> np.ndarray:
        """The coefficient of variation, deviation / mean; nan where the mean is 0."""
        nonzero = np.where(self.mean == 0, np.nan, self.mean)
        return self.deviation / nonzero


def pooled(parts: Iterable[Moments]) -> Moments:
    """One quantity of all quantities of some moments."""
    columns = np.concatenate([part.numbers for part in parts], axis=1)
    single = [columns[:, [place]] for place in range(columns.shape[1])]
    return Moments(reduce(joined_moments, single))
