"""Which sentence pairs are taken."""

from __future__ import annotations

import random

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
