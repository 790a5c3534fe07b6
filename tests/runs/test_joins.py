"""Partials are joined in any grouping, and to what NumPy says of all numbers together."""

from functools import reduce

import numpy as np
import pytest

from fairseq_normalign.runs.chunks import Partial
from fairseq_normalign.runs.joins import Draws, Sample, at_most, merged, moments_of

RANDOM = np.random.default_rng(0)


def partial(size):
    values = RANDOM.normal(1000, 1, size=(2, size))
    return values, Partial(
        {
            "a.sum": values.sum(1),
            "ragged.sum": np.arange(size),
            "a.low": values.min(1),
            "a.high": values.max(1),
            "a.moments": moments_of(values),
            "a.rows": values.T,
        }
    )


def test_partials_join_to_what_numpy_says_of_all():
    values, partials = zip(*map(partial, (1, 20, 13, 5)), strict=True)
    together = np.concatenate(values, axis=1)
    left = reduce(merged, partials, Partial()).arrays
    right = merged(merged(*partials[:2]), merged(*partials[2:])).arrays
    for arrays in (left, right):
        count, mean, squares, low, high = arrays["a.moments"]
        assert count.tolist() == [39, 39]
        np.testing.assert_allclose(mean, together.mean(1))
        np.testing.assert_allclose(squares / count, together.var(1))
        for name, found in (("low", low), ("high", high)):
            np.testing.assert_array_equal(arrays[f"a.{name}"], found)
        np.testing.assert_array_equal(low, together.min(1))
        np.testing.assert_allclose(arrays["a.sum"], together.sum(1))
        np.testing.assert_array_equal(arrays["a.rows"], together.T)
        assert arrays["ragged.sum"].tolist() == [
            sum(place for size in (1, 20, 13, 5) if place < size) for place in range(20)
        ]


def numbered(first, last):
    """Rows whose draws are those of their lines."""
    draws = Draws(range(first, last))([1] * (last - first))
    return draws, np.stack([np.arange(first, last), -np.arange(first, last)], axis=1)


@pytest.mark.parametrize("step", [7, 70, 10_000])
def test_the_sample_of_many_rows_is_the_same_in_any_chunks(step):
    joined, at_once = np.empty((0, 3)), Sample(100)
    for first in range(0, 10_000, step):
        draws, rows = numbered(first, min(first + step, 10_000))
        at_once.add(draws, rows.__getitem__)
        joined = at_most(np.concatenate([joined, np.column_stack([draws, rows])]), 100)
    draws, rows = numbered(0, 10_000)
    expected = np.sort(np.argsort(draws)[:100])
    for found in (joined, at_once.rows()):
        np.testing.assert_array_equal(found[:, 1:], rows[expected])
