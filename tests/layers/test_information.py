import math

import numpy as np
import pytest

from fairseq_normalign.layers.information import mutual_information, shuffled_information


def slow_information(labels, clusters):
    total = 0.0
    n = len(labels)
    pairs = list(zip(labels, clusters, strict=True))
    for v, k in set(pairs):
        joint = pairs.count((v, k)) / n
        total += joint * math.log(joint / ((labels.count(v) / n) * (clusters.count(k) / n)))
    return total


def test_it_is_what_the_definition_says():
    rng = np.random.default_rng(0)
    labels, clusters = rng.integers(5, size=60), rng.integers(7, size=60)
    slow = slow_information(labels.tolist(), clusters.tolist())
    assert mutual_information(labels, clusters) == pytest.approx(slow)


def test_clusters_that_are_the_labels_know_all_of_them():
    labels = np.repeat(np.arange(8), 5)
    assert mutual_information(labels, 7 - labels) == pytest.approx(math.log(8))


def test_one_cluster_knows_nothing():
    assert mutual_information(np.arange(9), np.zeros(9, dtype=int)) == pytest.approx(0)


def test_shuffled_labels_show_the_bias():
    """(K − 1)(V − 1) / 2N to the first order."""
    rng = np.random.default_rng(0)
    labels, clusters = rng.integers(10, size=5000), rng.integers(20, size=5000)
    expected = 19 * 9 / (2 * 5000)
    assert mutual_information(labels, clusters) == pytest.approx(expected, rel=0.2)
    assert shuffled_information(labels, clusters, rng) == pytest.approx(expected, rel=0.2)
