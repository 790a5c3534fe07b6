"""Which sentence pairs are taken."""

from __future__ import annotations

import random
from collections import Counter
from itertools import permutations

import pytest
from selection import clean, groups


def test_clean_keeps_pairs_of_likely_lengths():
    pairs = [("a", ""), ("a b", "a"), ("a b c", "a"), ("a b c d", "a b c d"), (" ", " ")]
    assert list(clean(pairs, max_words=3, max_ratio=2)) == [("a b", "a")]
    assert list(clean(pairs, max_words=4, max_ratio=3)) == pairs[1:4]


@pytest.mark.parametrize("sizes", [[3], [2, 1], [0, 4], [10], []])
def test_groups_have_exactly_their_sizes(sizes):
    numbers = list(groups(10, sizes, random.Random(5)))
    assert len(numbers) == 10
    assert [numbers.count(group) for group in range(len(sizes))] == sizes


def test_groups_are_all_equally_likely():
    """Of 4 things one goes to each of two groups: 12 ways, each near 1/12 of 12,000 draws."""
    rng = random.Random(1)
    counts = Counter(tuple(groups(4, [1, 1], rng)) for _ in range(12000))
    assert set(counts) == set(permutations([0, 1, None, None]))
    assert all(abs(count - 1000) < 5 * 1000**0.5 for count in counts.values())
