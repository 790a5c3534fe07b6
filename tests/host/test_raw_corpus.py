"""Lines of a corpus are counted, and tokens masked: the same ones for the same seed."""

from __future__ import annotations

import os
from functools import partial
from random import Random
from types import SimpleNamespace

import pytest
import torch

from fairseq_normalign.errors import InputError
from fairseq_normalign.host import raw_corpus
from fairseq_normalign.host.pairs import NO_SENTENCE, Pair, Sentence
from fairseq_normalign.host.raw_corpus import masked, with_masks
from fairseq_normalign.text.links import count_lines
from fairseq_normalign.text.words import TextFile

MASK = 999


def sentence(count: int) -> Sentence:
    """[CLS], tokens in two passages, and [SEP] behind each."""
    half = count // 2
    tokens = [0, *range(10, 10 + half), 2, *range(10 + half, 10 + count), 2]
    words = [-1, *range(half), -1, *range(half, count), -1]
    return Sentence(torch.tensor(tokens), words, [f"w{number}" for number in range(count)])


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
    special = torch.tensor(before.words) < 0
    assert torch.equal(after.tokens[special], before.tokens[special])
    assert after.words == before.words
    assert after.text == before.text


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


def test_lines_are_counted_beforehand_where_they_can_be_read_again(tmp_path):
    text, pipe = tmp_path / "text", tmp_path / "pipe"
    text.write_text("a\nb\n")
    os.mkfifo(pipe)
    assert [count_lines(TextFile(path)) for path in (text, pipe, "-")] == [2, None, None]


@pytest.mark.parametrize("losses", [(8.0, 2.5), (2.5, 8.0), (4.0, 2.5)])
def test_pairs_that_are_likelier_the_other_way_round_are_refused(losses, monkeypatch):
    model = SimpleNamespace(encoder=None, decoder=None)
    forcing = SimpleNamespace(model=model, takes=lambda pair: True)
    texts = SimpleNamespace(pair=lambda source, target, where: (source, target))
    models = [SimpleNamespace(forcing=forcing, reader=texts)]
    of_pairs = {("a", "b"): losses[0], ("b", "a"): losses[1]}
    monkeypatch.setattr(raw_corpus, "loss_per_token", lambda forcing, pairs: of_pairs[pairs[0]])
    reader = raw_corpus.ChunkReader(models, raw_corpus.TEXT)
    check = partial(reader.refuse_swapped, [raw_corpus.Item([("a", "b")], [])])
    if losses[0] - losses[1] > raw_corpus.SWAPPED:
        with pytest.raises(InputError, match="seem to be swapped"):
            check()
    else:
        check()
