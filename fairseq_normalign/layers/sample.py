"""A random sample of rows that come in batches, too many to be kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SIZE = 250_000  # rows: all are kept while there are no more; of so many, ρ is known to ±0.004
SEED = 12345
MANY = 1000  # batches whose rows are put together


class Sample:
    """All rows while they are few; then a uniform sample of them without replacement.

    Each row draws a random number, and the rows with the smallest ones stay.
    """

    def __init__(self, columns: int, *, size: int = SIZE, seed: int = SEED):
        self.size = size
        self.seen = 0  # rows
        self._random = np.random.default_rng(seed)
        self._bar = 1.0  # rows that draw more cannot stay
        self._draws: list[np.ndarray] = []
        self._parts: list[np.ndarray] = [np.empty((0, columns), dtype=np.float32)]
        self._waiting = 0

    def add(self, rows: np.ndarray) -> None:
        """Adds rows, (N, columns)."""
        self.add_some(len(rows), rows.__getitem__)

    def add_some(self, number: int, rows_at: Callable[[np.ndarray], np.ndarray]) -> None:
        """Adds rows that are made only if they stay.

        Args:
            number: how many there are.
            rows_at: places from 0, (N,) → rows, (N, columns).
        """
        self.seen += number
        draws = self._random.random(number)
        places = np.flatnonzero(draws < self._bar)
        self._draws.append(draws[places])
        self._parts.append(rows_at(places).astype(np.float32))
        self._waiting += len(places)
        if self._waiting > 2 * self.size:
            self._shrink()
        elif len(self._draws) > MANY:
            self._draws = [np.concatenate(self._draws)]
            self._parts = [np.concatenate(self._parts)]

    def _shrink(self) -> None:
        draws = np.concatenate(self._draws)
        smallest = np.argpartition(draws, self.size)[: self.size]
        self._bar = float(draws[smallest].max())
        self._draws = [draws[smallest]]
        self._parts = [np.concatenate(self._parts)[smallest]]
        self._waiting = self.size

    def rows(self) -> np.ndarray:
        """What has stayed, (N, columns) with N ≤ size."""
        if self._waiting > self.size:
            self._shrink()
        return np.concatenate(self._parts)

    @property
    def is_whole(self) -> bool:
        """Whether no row was dropped."""
        return self.seen <= self.size
