"""Pieces to words where the words are known: by marks, by spelling, and by their places."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.spelling import placed_ids, spelled_ids
from fairseq_normalign.text.words import split_words


@pytest.mark.parametrize(
    ("pieces", "bpe", "words", "expected"),
    [
        ("▁wir ▁glau ben", "sentencepiece", "wir glauben", [0, 1, 1]),
        ("wir ▁glau ben", "sentencepiece", "wir glauben", [0, 1, 1]),
        ("▁a ▁b ▁c", "sentencepiece", "a▁b c", [0, 0, 1]),  # ▁ in the text looks like a space
        # NFKC makes a no-break space a space
        ("▁a ▁b ▁c", "sentencepiece", "a\u00a0b c", [0, 0, 1]),
        ("▁a ▁b", "sentencepiece", "a\u200bb", [0, 0]),  # … and nmt_nfkc a zero-width one
        ("▁ca fe \u0301", "sentencepiece", "café", [0, 0, 0]),  # a combining mark of its own
        ("▁ca fé ▁x", "sentencepiece", "cafe\u0301 x", [0, 0, 1]),
        ("▁... ▁1⁄2 ▁ﬁ", "sentencepiece", "… ½ fi", [0, 1, 2]),  # compatibility forms
        ("▁o\u0300 \u032c ▁x", "sentencepiece", "\u00f2\u032c x", [0, 0, 1]),  # marks reordered
        ("▁\u1e73 \u0301", "sentencepiece", "\u1e73\u0301", [0, 0]),
        ("▁a ▁b", "sentencepiece", "a \ufffd b", [0, 2]),  # nmt_nfkc makes it a space
        ("▁straße", "sentencepiece", "STRASSE", [0]),  # a model that folds case
        ("▁a ▁b", "sentencepiece", "a \u200b b", [0, 2]),  # a word that vanished has no pieces
        ("▁a ▁b ▁", "sentencepiece", "a b", [0, 1, 1]),
        # the unknown pieces lost their marks
        ("<unk> <unk>", "sentencepiece", "wir glauben", [0, 1]),
        ("▁wir <unk> ben ▁.", "sentencepiece", "wir glauben .", [0, 1, 1, 2]),
        ("<unk> <unk> <unk>", "sentencepiece", "ab cd", [0, 1, 1]),
        # an unknown no-break space
        ("▁fo o <unk> bar ▁b", "sentencepiece", "foo\u00a0bar b", [0, 0, 0, 0, 1]),
        ("▁a ▁ <unk> ▁b", "sentencepiece", "a \u200b b", [0, 1, 1, 2]),
        ("▁a ▁b <unk>", "sentencepiece", "a▁b\u00ad", [0, 0, 0]),
        ("<unk> en", "subword_nmt", "glauben", [0, 0]),
        ("glau@@ ben", "subword_nmt", "glauben", [0, 0]),
        ("a@@ b", "subword_nmt", "a@@ b", [0, 1]),  # @@ in the text
        ("@@ b", "subword_nmt", "@@ b", [0, 1]),
        ("em ##bed # # x", "bert", "Embed ##x", [0, 0, 1, 1, 1]),  # ## in the text
        ("do ##n t . x", "bert", "Dónt. x", [0, 0, 0, 0, 1]),  # signs are apart
        ("the Ġcaf Ã ©", "gpt2", "the café", [0, 1, 1, 1]),  # a character split into bytes
        ("a Âł b", "gpt2", "a\u00a0b", [0, 0, 0]),
        ("a b c", "none", "a\u00a0b c", [0, 0, 1]),  # fairseq splits at a no-break space
        ("<unk> b", "none", "x b", [0, 1]),
        ("▁of▁the ▁x", "sentencepiece", "of▁the x", [0, 1]),
        ("", "sentencepiece", "", []),
        ("▁", "sentencepiece", "", [0]),
    ],
)
def test_words_decide(pieces, bpe, words, expected):
    assert spelled_ids(pieces.split(" ") if pieces else [], split_words(words), bpe) == expected


@pytest.mark.parametrize(
    ("pieces", "words", "message"),
    [
        (
            "▁wir ▁glau ben",
            "wir",
            r"test.de:7: 3 pieces do not spell the 1 words: found … '▁wir ▁glau ben'",
        ),
        (
            "▁wir ▁x",
            "wir y",
            r"found … '▁wir ▁x' …, expected … 'wir y' …; is the text the tokenised text",
        ),
        ("▁wir", "wir glauben", "1 pieces do not spell the 2 words"),
        ("▁of▁the", "of the", "1 pieces do not spell the 2 words"),
        ("<unk>", "wir glauben", "1 pieces do not spell the 2 words"),
        ("", "wir", "found … 'nothing' …, expected … 'wir'"),
    ],
)
def test_a_mismatch_shows_both(pieces, words, message):
    with pytest.raises(InputError, match=message):
        spelled_ids(pieces.split(), words.split(), "sentencepiece", where="test.de:7")


# Any text, any segmentation of it: the pieces find their words again.

letters = st.text(st.sampled_from("abé漢🙂\u0301ﬁ▁@_|Ġ"), min_size=1, max_size=6)


def segmented(word, cuts):
    places = sorted({0, len(word), *(cut % (len(word) + 1) for cut in cuts)})
    return [word[a:b] for a, b in itertools.pairwise(places)]


def pieces_of(word, cuts, bpe, first):
    parts = segmented(word, cuts)
    if bpe == "sentencepiece":
        return [("" if first else "▁") + parts[0], *parts[1:]]
    if bpe == "subword_nmt":
        return [part + "@@" for part in parts[:-1]] + parts[-1:]
    return [word]


@settings(deadline=None)
@given(
    st.lists(st.tuples(letters, st.lists(st.integers(0, 6)))),
    st.sampled_from(["sentencepiece", "subword_nmt", "none"]),
)
def test_pieces_find_their_words(segmentation, bpe):
    pieces, expected = [], []
    for n, (word, cuts) in enumerate(segmentation):
        new = pieces_of(word, cuts, bpe, first=n == 0)
        pieces += new
        expected += [n] * len(new)
    words = [word for word, _ in segmentation]
    ids = spelled_ids(pieces, words, bpe)
    assert len(ids) == len(pieces)
    assert ids == sorted(ids)
    if not set("▁@\u0301") & set("".join(words)):
        assert ids == expected


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


def test_places_of_a_piece_over_several_words():
    with pytest.raises(InputError, match="line 3: piece '▁of▁the' spans several words"):
        placed_ids(["▁of▁the"], ["of", "the"], "▁of▁the", [0, 0, 1, 2, 3, 4, 5, 6], where="line 3")


def test_pieces_of_another_text_are_refused():
    with pytest.raises(InputError, match="line 3: 1 pieces do not spell the 2 words"):
        placed_ids(["▁das"], ["das", "haus"], "▁das▁haus", [0, *range(9)], where="line 3")
