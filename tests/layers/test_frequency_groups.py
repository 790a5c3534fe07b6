import numpy as np

from fairseq_normalign.layers.frequency_groups import (
    equal_bounds,
    group_names,
    group_numbers,
)


def test_groups_have_about_as_many_tokens():
    frequencies = np.repeat([1, 2, 4, 8, 16, 32], 10)
    bounds = equal_bounds(frequencies, 3)
    assert bounds == [4, 16]
    assert np.bincount(group_numbers(frequencies, bounds)).tolist() == [20, 20, 20]


def test_a_frequency_is_never_split():
    frequencies = np.array([1, 2] + [7] * 20)
    assert equal_bounds(frequencies, 4) == [7]
    assert np.bincount(group_numbers(frequencies, [7])).tolist() == [2, 20]


def test_equal_frequencies_are_one_group():
    assert equal_bounds(np.full(9, 3), 4) == []
    assert group_names([]) == ["all"]


def test_bounds_belong_to_the_group_above():
    assert group_numbers(np.array([9, 10, 99, 100, 0]), [10, 100]).tolist() == [0, 1, 1, 2, 0]
    assert group_names([10, 100, 1000]) == ["<10", "10–<100", "100–<1000", "≥1000"]
