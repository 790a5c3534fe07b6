import numpy as np

from fairseq_normalign.layers.token_sample import balanced, some


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
