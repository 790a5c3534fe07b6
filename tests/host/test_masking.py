"""Masks on tokens: how many, which, and the same for the same seed."""

from __future__ import annotations

from random import Random

import pytest
import torch

from fairseq_normalign.host.masking import masked, with_masks
from fairseq_normalign.host.pairs import NO_SENTENCE, Pair, Sentence

MASK = 999


def sentence(count: int) -> Sentence:
    """[CLS], tokens in two passages, and [SEP] behind each."""
    half = count // 2
    tokens = [0, *range(10, 10 + half), 2, *range(10 + half, 10 + count), 2]
    words = [-1, *range(half), -1, *range(half, count), -1]
    unknown = ("odd",)
    return Sentence(torch.tensor(tokens), words, [f"w{number}" for number in range(count)], unknown)


@pytest.mark.parametrize(
    ("tokens", "share", "expected"),
    [
        (0, 0.12, 0),
        (9, 0.0, 0),
        (1, 0.12, 1),
        (8, 0.12, 1),
        (25, 0.12, 3),
        (100, 0.29, 29),
        (10, 1.0, 10),
    ],
)
def test_the_share_is_rounded_down_but_one_at_least(tokens, share, expected):
    before = sentence(tokens)
    after = masked(before, share, MASK, Random(0))
    assert after.tokens.eq(MASK).sum() == expected
    assert not before.tokens.eq(MASK).any()
    assert after.words == before.words
    assert after.text == before.text
    assert after.unknown == ()


def test_special_tokens_stay():
    before = sentence(10)
    after = masked(before, 1.0, MASK, Random(0))
    special = torch.tensor(before.words) < 0
    assert after.tokens[special].tolist() == before.tokens[special].tolist()
    assert after.tokens[~special].eq(MASK).all()


def test_every_token_is_drawn_as_often():
    draws = Random(1)
    counts = torch.zeros(23, dtype=torch.long)
    for _ in range(3000):
        counts += masked(sentence(20), 0.1, MASK, draws).tokens.eq(MASK)
    drawn = counts[torch.tensor(sentence(20).words) >= 0]
    assert drawn.min() > 230  # 300 of each are expected, with a deviation of 16
    assert drawn.max() < 370


def test_the_same_seed_masks_the_same():
    pairs = [Pair(sentence(count), NO_SENTENCE, f"line {count}") for count in (20, 20, 7)]
    masks = {}
    for seed in (0, 1):
        masks[seed] = [
            pair.source.tokens.tolist() for pair in with_masks(pairs, 0.2, MASK, seed=seed)
        ]
        again = with_masks(pairs, 0.2, MASK, seed=seed)
        assert [pair.source.tokens.tolist() for pair in again] == masks[seed]
        rest = with_masks(pairs[1:], 0.2, MASK, seed=seed, first=1)  # by somebody else
        assert [pair.source.tokens.tolist() for pair in rest] == masks[seed][1:]
    assert masks[0] != masks[1]
    assert masks[0][0] != masks[0][1]  # not the same places in each sentence
