"""Which tokens are drawn, and their groups by frequency."""

import numpy as np

from fairseq_normalign.layers.evolution_plan import (
    balanced,
    equal_bounds,
    group_names,
    group_numbers,
    some,
)


def test_as_many_of_each_frequent_label():
    labels = np.array([0] * 5 + [1] * 9 + [2] * 7 + [3] * 2)
    places = balanced(labels, most=2, quota=4, rng=np.random.default_rng(0))
    assert np.bincount(labels[places]).tolist() == [0, 4, 4]
    assert places.tolist() == sorted(set(places.tolist()))


def test_labels_with_too_few_do_not_count():
    labels = np.array([0] * 5 + [1] * 9)
    places = balanced(labels, most=5, quota=6, rng=np.random.default_rng(0))
    assert np.bincount(labels[places]).tolist() == [0, 6]
    assert len(balanced(labels, most=5, quota=10, rng=np.random.default_rng(0))) == 0


def test_the_seed_decides():
    labels = np.repeat(np.arange(3), 50)
    first, again, other = (
        balanced(labels, most=3, quota=10, rng=np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert first.tolist() == again.tolist() != other.tolist()


def test_some_are_all_if_there_are_no_more():
    places = np.array([4, 2, 9])
    assert some(places, 5, np.random.default_rng(0)).tolist() == [2, 4, 9]
    assert len(some(places, 2, np.random.default_rng(0))) == 2


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
