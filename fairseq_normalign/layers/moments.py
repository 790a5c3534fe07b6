"""Mean, deviation and extremes of numbers that come in batches."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


class Moments:
    """Of several quantities at once, in memory that does not grow.

    Batches join as in Chan, Golub and LeVeque (1979), which loses no digits as a difference of
    sums of squares would.
    """

    def __init__(self, quantities: int):
        self.count = 0
        self.mean = np.zeros(quantities)
        self.squares = np.zeros(quantities)  # Σ (x - mean)²
        self.low = np.full(quantities, np.inf)
        self.high = np.full(quantities, -np.inf)

    def add(self, values: np.ndarray) -> None:
        """Adds numbers, (Q, N)."""
        if not values.shape[1]:
            return
        values = values.astype(np.float64)
        batch = Moments(len(values))
        batch.count = values.shape[1]
        batch.mean = values.mean(1)
        batch.squares = ((values - batch.mean[:, None]) ** 2).sum(1)
        batch.low, batch.high = values.min(1), values.max(1)
        self.join(batch)

    def join(self, other: Moments) -> None:
        """Adds what another one has gathered."""
        total = self.count + other.count
        if not total:
            return
        apart = other.mean - self.mean
        self.squares = self.squares + other.squares
        self.squares += apart**2 * (self.count * other.count / total)
        self.mean = self.mean + apart * (other.count / total)
        self.low = np.minimum(self.low, other.low)
        self.high = np.maximum(self.high, other.high)
        self.count = total

    @property
    def deviation(self) -> np.ndarray:
        """The population's standard deviation."""
        return np.sqrt(self.squares / max(1, self.count))

    @property
    def variation(self) -> np.ndarray:
        """The coefficient of variation, deviation / mean; nan where the mean is 0."""
        nonzero = np.where(self.mean == 0, np.nan, self.mean)
        return self.deviation / nonzero


def pooled(parts: Iterable[Moments]) -> Moments:
    """One quantity of all quantities of some moments."""
    together = Moments(1)
    for part in parts:
        for place in range(len(part.mean)):
            of_one = Moments(1)
            of_one.count = part.count
            of_one.mean = part.mean[[place]]
            of_one.squares = part.squares[[place]]
            of_one.low, of_one.high = part.low[[place]], part.high[[place]]
            together.join(of_one)
    return together
