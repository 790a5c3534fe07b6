"""Which tokens are drawn, and their groups by frequency."""

import numpy as np

from fairseq_normalign.layers.evolution_plan import balanced, equal_bounds, group_names, some


def test_as_many_of_each_frequent_label():
    labels = np.array([0] * 5 + [1] * 9 + [2] * 7 + [3] * 2)
    places = balanced(labels, most=2, quota=4, rng=np.random.default_rng(0))
    assert np.bincount(labels[places]).tolist() == [0, 4, 4]
    assert places.tolist() == sorted(set(places.tolist()))
    few = balanced(labels, most=5, quota=6, rng=np.random.default_rng(0))
    assert np.bincount(labels[few]).tolist() == [0, 6, 6]
    assert len(balanced(labels, most=5, quota=10, rng=np.random.default_rng(0))) == 0


def test_some_are_all_if_there_are_no_more():
    places = np.array([4, 2, 9])
    assert some(places, 5, np.random.default_rng(0)).tolist() == [2, 4, 9]
    assert len(some(places, 2, np.random.default_rng(0))) == 2


def test_groups_have_about_as_many_tokens_and_no_frequency_is_split():
    assert equal_bounds(np.repeat([1, 2, 4, 8, 16, 32], 10), 3) == [4, 16]
    assert equal_bounds(np.array([1, 2] + [7] * 20), 4) == [7]
    assert equal_bounds(np.full(9, 3), 4) == []
    assert group_names([]) == ["all"]
    assert group_names([10, 100, 1000]) == ["<10", "10–<100", "100–<1000", "≥1000"]
