"""A random sample of rows that come in batches, too many to be kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SIZE = 250_000  # rows: all are kept while there are no more; of so many, ρ is known to ±0.004
SEED = 12345
SPARE = 1.25  # rows that are held, in sizes of the sample, until the surplus is dropped


class Sample:
    """All rows while they are few; then a uniform sample of them without replacement.

    Each row draws a random number, and the rows with the smallest ones stay. They are held in two
    arrays: many small ones, in between what a model takes and frees, would keep the memory of whole
    batches from being used again.
    """

    def __init__(self, columns: int, *, size: int = SIZE, seed: int = SEED):
        self.size = size
        self.seen = 0  # rows
        self._random = np.random.default_rng(seed)
        self._bar = 1.0  # rows that draw more cannot stay
        self._count = 0  # rows that are held; there is room for more
        self._draws = np.empty(0)
        self._rows = np.empty((0, columns), dtype=np.float32)

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
        begin, self._count = self._count, self._count + len(places)
        if self._count > len(self._draws):
            self._make_room(self._count)
        self._draws[begin : self._count] = draws[places]
        self._rows[begin : self._count] = rows_at(places)
        if self._count > SPARE * self.size:
            self._shrink()

    def _make_room(self, needed: int) -> None:
        more = max(needed, 2 * len(self._draws)) - len(self._draws)
        self._draws = np.concatenate([self._draws, np.zeros(more)])
        room = np.zeros((more, self._rows.shape[1]), dtype=np.float32)
        self._rows = np.concatenate([self._rows, room])

    def _shrink(self) -> None:
        smallest = np.argpartition(self._draws[: self._count], self.size)[: self.size]
        self._draws[: self.size] = self._draws[smallest]
        self._rows[: self.size] = self._rows[smallest]
        self._bar = float(self._draws[: self.size].max())
        self._count = self.size

    def rows(self) -> np.ndarray:
        """What has stayed, (N, columns) with N ≤ size."""
        if self._count > self.size:
            self._shrink()
        return self._rows[: self._count].copy()

    @property
    def is_whole(self) -> bool:
        """Whether no row was dropped."""
        return self.seen <= self.size
