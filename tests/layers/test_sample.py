import numpy as np

from fairseq_normalign.layers.sample import Sample


def numbered(first, last):
    return np.stack([np.arange(first, last), -np.arange(first, last)], axis=1)


def test_few_rows_all_stay():
    sample = Sample(2, size=10)
    sample.add(numbered(0, 4))
    sample.add(numbered(4, 10))
    assert sample.is_whole
    assert np.array_equal(sample.rows(), numbered(0, 10))


def test_of_many_rows_a_sample_stays():
    sample = Sample(2, size=100)
    for first in range(0, 10_000, 70):
        sample.add(numbered(first, min(first + 70, 10_000)))
    rows = sample.rows()
    assert sample.seen == 10_000
    assert not sample.is_whole
    assert rows.shape == (100, 2)
    assert len(np.unique(rows[:, 0])) == 100
    assert np.array_equal(rows[:, 1], -rows[:, 0])


def test_every_row_is_as_likely_to_stay():
    """Over 400 samples of 20 of 200 rows, early and late rows stay equally often."""
    counts = np.zeros(200)
    for seed in range(400):
        sample = Sample(2, size=20, seed=seed)
        for first in range(0, 200, 25):
            sample.add(numbered(first, first + 25))
        counts[sample.rows()[:, 0].astype(int)] += 1
    parts = counts.reshape(8, 25).sum(1) / counts.sum()
    assert np.abs(parts - 1 / 8).max() < 0.02  # six deviations of a multinomial share


def test_rows_are_held_in_few_large_arrays():
    """Many small ones would scatter the memory that a model takes and frees in between."""
    sample = Sample(2, size=100)
    for first in range(0, 10_000, 10):
        sample.add(numbered(first, first + 10))
        arrays = [value for value in vars(sample).values() if isinstance(value, np.ndarray)]
        assert 0 < sum(array.nbytes for array in arrays) <= 3 * 100 * (8 + 2 * 4)


def test_no_rows():
    assert Sample(3).rows().shape == (0, 3)
