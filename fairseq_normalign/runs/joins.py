"""How the arrays of two partials become those of both: the last part of a name tells.

===========  ==================================================================================
``sum``      added; the smaller one is filled up with zeros
``low``      the smaller number of each two
``high``     the larger one
``moments``  count, mean, Σ (x - mean)², smallest and largest of each quantity, (5, Q)
``sample``   rows that begin with a random number: those with the smallest ones stay, (N, 1 + C)
``rows``     the rows of one, then of the other
===========  ==================================================================================

All of these may be joined in any grouping, so that nobody needs to know who measured what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fairseq_normalign.runs.chunks import Partial

SAMPLE = 250_000  # rows: all are kept while there are no more; of so many, ρ is known to ±0.004
SEED = 12345


def merged(left: Partial, right: Partial) -> Partial:
    """Both together; what only one of them has stays as it is."""
    arrays = dict(left.arrays)
    for name, array in right.arrays.items():
        add_array(arrays, name, array)
    return Partial(arrays)


def add_array(arrays: dict[str, np.ndarray], name: str, array: np.ndarray) -> None:
    """Joins an array to the one of its name; what is not there yet is taken as it is."""
    join = JOINS[name.rpartition(".")[2]]
    arrays[name] = join(arrays[name], array) if name in arrays else array


def arrays_of(arrays: Mapping[str, np.ndarray], start: str) -> dict[str, np.ndarray]:
    """Those whose names begin so, by the rest of their names."""
    return {name.removeprefix(start): arrays[name] for name in arrays if name.startswith(start)}


def added(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    if left.shape == right.shape:
        return left + right
    shape = np.maximum(left.shape, right.shape)
    total = np.zeros(shape, np.result_type(left, right))
    for part in (left, right):
        total[tuple(map(slice, part.shape))] += part
    return total


def moments_of(values: np.ndarray) -> np.ndarray:
    """Of some numbers of each quantity, (Q, N) with N > 0."""
    values = values.astype(np.float64)
    count = np.full(len(values), values.shape[1])
    mean = values.mean(1)
    squares = ((values - mean[:, None]) ** 2).sum(1)
    return np.stack([count, mean, squares, values.min(1), values.max(1)])


def joined_moments(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """As Chan, Golub and LeVeque (1979) do: a difference of sums of squares would lose digits."""
    total = left[0] + right[0]
    share = right[0] / np.maximum(total, 1)
    apart = right[1] - left[1]
    mean = left[1] + apart * share
    squares = left[2] + right[2] + apart**2 * left[0] * share
    low, high = np.minimum(left[3], right[3]), np.maximum(left[4], right[4])
    return np.stack([total, mean, squares, low, high])


def at_most(rows: np.ndarray, size: int = SAMPLE) -> np.ndarray:
    """The rows with the smallest first numbers, in their order."""
    if len(rows) <= size:
        return rows
    return rows[np.sort(np.argpartition(rows[:, 0], size)[:size])]


class Gathered:
    """The arrays of one chunk, as its batches come."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.samples: dict[str, Sample] = {}

    def add(self, name: str, array: np.ndarray) -> None:
        add_array(self.arrays, name, array)

    def sample(self, name: str, draws: np.ndarray, rows_at: RowsAt) -> None:
        """Adds rows to a sample, and counts them; see ``Sample.add``."""
        self.add(f"{name}.sum", np.array([len(draws)]))
        self.samples.setdefault(f"{name}.sample", Sample()).add(draws, rows_at)

    def partial(self, notes: Mapping[str, Any]) -> Partial:
        samples = {name: sample.rows() for name, sample in self.samples.items()}
        return Partial({**self.arrays, **samples}, notes=notes)


RowsAt = Callable[[np.ndarray], np.ndarray]  # places from 0, (N,) → rows, (N, C)


class Sample:
    """Rows that come in batches, each with a number that it has drawn."""

    def __init__(self, size: int = SAMPLE):
        self.size = size
        self._bar = 1.0  # rows that draw more cannot stay
        self._parts: list[np.ndarray] = []
        self._waiting = 0

    def add(self, draws: np.ndarray, rows_at: RowsAt) -> None:
        """Adds rows, which are made only if they may stay."""
        places = np.flatnonzero(draws < self._bar)
        self._parts.append(np.column_stack([draws[places], rows_at(places)]))
        self._waiting += len(places)
        if self._waiting > 2 * self.size:
            self._parts = [self.rows()]
            self._bar = float(self._parts[0][:, 0].max())
            self._waiting = self.size

    def rows(self) -> np.ndarray:
        """What has stayed, each row behind its number, (N, 1 + C) with N ≤ size."""
        return at_most(np.concatenate(self._parts), self.size)


class Draws:
    """Random numbers of lines: the same for a line, whoever works on it and with which others.

    Args:
        lines: of a batch, from 0.
        key: tells these numbers from others of the same lines.
    """

    def __init__(self, lines: Sequence[int], key: int = 0):
        self._of_lines = [np.random.default_rng([SEED, key, line]) for line in lines]

    def __call__(self, counts: Iterable[int]) -> np.ndarray:
        """So many for each line, one line after the other."""
        of_lines = zip(self._of_lines, counts, strict=True)
        return np.concatenate([line.random(count) for line, count in of_lines])


JOINS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "sum": added,
    "low": np.minimum,
    "high": np.maximum,
    "moments": joined_moments,
    # A uniform sample without replacement, if each row has drawn its number by itself.
    "sample": lambda left, right: at_most(np.concatenate([left, right])),
    "rows": lambda left, right: np.concatenate([left, right]),
}
