"""Pieces to words: by their marks, or by the places that they come from."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.words import (
    SCHEMES,
    final_punctuation,
    is_punctuation,
    join_pieces,
    normalise_bpe_name,
    placed_ids,
    settle_punctuation,
    word_ids,
)


@pytest.mark.parametrize(
    ("pieces", "bpe", "expected"),
    [
        ("", "sentencepiece", []),
        ("▁wir ▁glau ben", "sentencepiece", [0, 1, 1]),  # with dummy prefix
        ("wir ▁glau ben", "sentencepiece", [0, 1, 1]),  # without
        ("▁ wir ▁ , ▁das", "sentencepiece", [0, 0, 1, 1, 2]),  # a lone mark opens the next word
        ("▁ ▁wir", "sentencepiece", [0, 0]),
        ("▁wir ▁", "sentencepiece", [0, 0]),  # … and a trailing one opens none
        ("▁wir <unk> ▁das", "sentencepiece", [0, 0, 1]),
        ("<unk> ▁das", "sentencepiece", [0, 1]),
        ("wir▁ glau ben▁", "sentencepiece", [0, 1, 1]),  # white space as suffix
        ("▁", "sentencepiece", [0]),
        ("wir glau@@ ben", "subword_nmt", [0, 1, 1]),
        ("glau@@ ben@@", "subword_nmt", [0, 0]),  # cut at the length limit
        ("a @@", "subword_nmt", [0, 0]),  # a lone mark opens no word
        ("@@ a", "subword_nmt", [0, 0]),
        ("@@", "subword_nmt", [0]),
        ("<unk> das", "subword_nmt", [0, 1]),
        ("em ##bed ##ding of", "bert", [0, 0, 0, 1]),
        ("##ding of", "bert", [0, 1]),  # cut at the beginning
        ("## a ##b", "bert", [0, 1, 1]),  # a lone mark is a word
        ("[UNK] das", "bert", [0, 1]),
        ("the Ġcat Ġsa t", "gpt2", [0, 1, 2, 2]),
        ("Ġthe Ġcat", "gpt2", [0, 1]),
        ("a b <unk>", "none", [0, 1, 2]),
    ],
)
def test_marks(pieces, bpe, expected):
    assert word_ids(pieces.split(), bpe) == expected


def test_a_piece_over_several_words_is_refused():
    with pytest.raises(InputError, match="a:1: piece '▁of▁the' spans several words"):
        word_ids(["▁of▁the"], "sentencepiece", where="a:1")


@pytest.mark.parametrize("name", ["byte_bpe", "bytes", "fastbpe2"])
def test_other_schemes_are_refused_by_name(name):
    message = f"unsupported BPE '{name}'; expected to split text: .*; or to join pieces: sentence"
    with pytest.raises(InputError, match=message):
        normalise_bpe_name(name)


@settings(deadline=None)
@given(st.lists(st.text(max_size=5)), st.sampled_from(SCHEMES))
def test_ids_start_at_0_and_never_skip(pieces, bpe):
    try:
        ids = word_ids(pieces, bpe)
    except InputError as error:
        assert "spans several words" in str(error)
        return
    assert ids[:1] in ([], [0])
    assert all(later - earlier in (0, 1) for earlier, later in itertools.pairwise(ids))


@pytest.mark.parametrize(
    ("pieces", "scheme", "expected"),
    [
        ("▁das ▁ha us", "sentencepiece", ["das", "haus"]),
        ("d@@ as @@", "subword_nmt", ["das"]),
        ("@@", "subword_nmt", ["@@"]),  # nothing but marks: as it stands
        ("▁", "sentencepiece", ["▁"]),
        ("the Ġcaf Ã ©", "gpt2", ["the", "café"]),
        ("a Âł", "gpt2", ["a\u00a0"]),
        ("em ##bed ## x", "bert", ["embed", "##", "x"]),
        ("▁das x@@", "none", ["▁das", "x@@"]),
        ("<unk> a", "subword_nmt", ["<unk>", "a"]),
    ],
)
def test_pieces_join_to_words(pieces, scheme, expected):
    pieces = pieces.split()
    assert join_pieces(pieces, word_ids(pieces, scheme), scheme) == expected


def test_punctuation_of_any_script():
    assert all(map(is_punctuation, [".", "?", "...", "。", "؟", "।", "»", "—", "。」"]))
    assert not any(map(is_punctuation, ["", "haus", "haus.", "3", "$", "+", "<unk>", "e."]))


def test_places_of_the_pieces_of_final_punctuation():
    assert final_punctuation(["ja", "."], [-1, 0, 0, 1, -1]) == [3]
    assert final_punctuation(["ja", "..."], [0, 1, 1, -1]) == [1, 2]
    assert final_punctuation([".", "ja"], [0, 1, -1]) == []
    assert final_punctuation([], [-1]) == []


def slow(soft, target_stop: int | None, source_stop: int | None):
    """The rule for stops of one piece, cell by cell; what is forbidden is 0."""
    settled = soft.tolist()
    for t, row in enumerate(settled):
        for s in range(len(row)):
            if source_stop is None:
                continue
            if target_stop is None:
                row[s] = 0 if s == source_stop else row[s]
            elif t == target_stop:
                row[s] = 1 if s == source_stop else 0
            elif s == source_stop:
                row[s] = 0
    return settled


@pytest.mark.parametrize("target_stop", [None, 3])
@pytest.mark.parametrize("source_stop", [None, 4])
def test_the_rule_equals_the_slow_twin(target_stop, source_stop):
    soft = np.random.default_rng(1).random((4, 5))
    before = soft.copy()
    rows = [] if target_stop is None else [target_stop]
    columns = [] if source_stop is None else [source_stop]
    settled = settle_punctuation(soft, rows, columns)
    assert settled.tolist() == slow(soft, target_stop, source_stop)
    np.testing.assert_array_equal(soft, before)


PLACED = [
    # pieces, words, normalised, offsets, expected
    ("▁das ▁ha us", "das haus", "▁das▁haus", [0, 0, 1, 2, 3, 4, 5, 6, 7, 8], [0, 1, 1]),
    ("▁a ▁b", "a \ufffd b", "▁a▁b", [0, 0, 1, 4, 5], [0, 2]),  # a word that vanished
    ("▁a", "\ufffd a", "▁a", [2, 2, 3], [1]),
    ("a▁ b ▁", "a b", "a▁b▁", [0, 1, 2, 3, 3], [0, 1, 1]),  # white space as suffix
    ("▁ <0xF0> <0x9F> <0x98> <0x80> ▁b", "😀 b", "▁😀▁b", [0, 0, 1, 2, 3], [0, 0, 0, 0, 0, 1]),
    ("▁< 0x41 >", "<0x41>", "▁<0x41>", [0, 0, 1, 2, 3, 4, 5, 6], [0, 0, 0]),
    ("▁a ▁b", "a▁b", "▁a▁b", [0, 0, 1, 2, 3], [0, 0]),  # ▁ in the text looks like a space
    ("▁f ind", "\ufb01nd", "▁find", [0, 0, 0, 1, 2, 3], [0, 0]),  # a character of two pieces
    ("", "\ufffd", "", [0], []),
    ("▁", "\ufffd", "▁", [0, 1], [0]),
]


@pytest.mark.parametrize(("pieces", "words", "normalised", "offsets", "expected"), PLACED)
def test_places_decide(pieces, words, normalised, offsets, expected):
    assert placed_ids(pieces.split(), words.split(" "), normalised, offsets) == expected


@pytest.mark.parametrize(
    ("piece", "message"),
    [
        ("▁of▁the", "line 3: piece '▁of▁the' spans several words"),
        ("▁of", "line 3: the pieces do not spell the 2 words"),
    ],
)
def test_pieces_that_are_not_those_of_the_words(piece, message):
    with pytest.raises(InputError, match=message):
        placed_ids([piece], ["of", "the"], "▁of▁the", [0, *range(7)], where="line 3")
