"""Pieces to words: marks where they can be trusted, spelling where the words are known."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_normalign.alignment.words import (
    SCHEMES,
    TextFile,
    normalise_bpe_name,
    split_words,
    word_ids,
)
from fairseq_normalign.errors import InputError


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
        ("<unk> das", "subword_nmt", [0, 1]),
        ("the Ġcat Ġsa t", "gpt2", [0, 1, 2, 2]),
        ("Ġthe Ġcat", "gpt2", [0, 1]),
        ("a b <unk>", "none", [0, 1, 2]),
        ("_a b _c", "wordpiece", [0, 0, 1]),
        ("a b | c", "letter", [0, 0, 1, 1]),
        ("a b_EOW c_EOW", "_EOW", [0, 0, 1]),
    ],
)
def test_marks(pieces, bpe, expected):
    assert word_ids(pieces.split(), bpe) == expected


@pytest.mark.parametrize(
    ("pieces", "bpe", "words", "expected"),
    [
        ("▁wir ▁glau ben", "sentencepiece", "wir glauben", [0, 1, 1]),
        ("wir ▁glau ben", "sentencepiece", "wir glauben", [0, 1, 1]),
        ("▁a ▁b ▁c", "sentencepiece", "a▁b c", [0, 0, 1]),  # ▁ in the text looks like a space
        (
            "▁a ▁b ▁c",
            "sentencepiece",
            "a\u00a0b c",
            [0, 0, 1],
        ),  # NFKC makes a no-break space a space
        ("▁a ▁b", "sentencepiece", "a\u200bb", [0, 0]),  # … and nmt_nfkc a zero-width one
        ("▁ca fe \u0301", "sentencepiece", "café", [0, 0, 0]),  # a combining mark of its own
        ("▁ca fé ▁x", "sentencepiece", "cafe\u0301 x", [0, 0, 1]),
        ("▁... ▁1⁄2 ▁ﬁ", "sentencepiece", "… ½ fi", [0, 1, 2]),  # compatibility forms
        ("▁straße", "sentencepiece", "STRASSE", [0]),  # a model that folds case
        ("▁a ▁b", "sentencepiece", "a \u200b b", [0, 2]),  # a word that vanished has no pieces
        ("▁a ▁b ▁", "sentencepiece", "a b", [0, 1, 1]),
        (
            "<unk> <unk>",
            "sentencepiece",
            "wir glauben",
            [0, 1],
        ),  # the unknown pieces lost their marks
        ("▁wir <unk> ben ▁.", "sentencepiece", "wir glauben .", [0, 1, 1, 2]),
        ("<unk> <unk> <unk>", "sentencepiece", "ab cd", [0, 1, 1]),
        (
            "▁fo o <unk> bar ▁b",
            "sentencepiece",
            "foo\u00a0bar b",
            [0, 0, 0, 0, 1],
        ),  # an unknown no-break space
        ("▁a ▁ <unk> ▁b", "sentencepiece", "a \u200b b", [0, 1, 1, 2]),
        ("▁a ▁b <unk>", "sentencepiece", "a▁b\u00ad", [0, 0, 0]),
        ("<unk> en", "subword_nmt", "glauben", [0, 0]),
        ("glau@@ ben", "subword_nmt", "glauben", [0, 0]),
        ("a@@ b", "subword_nmt", "a@@ b", [0, 1]),  # @@ in the text
        ("@@ b", "subword_nmt", "@@ b", [0, 1]),
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
    assert word_ids(pieces.split(" ") if pieces else [], bpe, words=split_words(words)) == expected


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
        word_ids(pieces.split(), "sentencepiece", words=words.split(), where="test.de:7")


def test_a_piece_over_several_words_is_refused():
    with pytest.raises(InputError, match="a:1: piece '▁of▁the' spans several words"):
        word_ids(["▁of▁the"], "sentencepiece", where="a:1")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (None, "none"),
        ("", "none"),
        ("@@ ", "subword_nmt"),
        ("@@", "subword_nmt"),
        ("subword_nmt", "subword_nmt"),
        ("sentencepiece", "sentencepiece"),
        ("gpt2", "gpt2"),
        ("hf_byte_bpe", "gpt2"),
        ("_EOW", "_EOW"),
        ("none", "none"),
    ],
)
def test_names_of_schemes(name, expected):
    assert normalise_bpe_name(name) == expected


@pytest.mark.parametrize("name", ["byte_bpe", "bytes", "characters", "bert", "fastbpe2"])
def test_other_schemes_are_refused_by_name(name):
    with pytest.raises(
        InputError, match=f"unsupported BPE '{name}'; expected one of: sentencepiece, gpt2"
    ):
        normalise_bpe_name(name)


def test_words_are_split_at_ascii_space_only(tmp_path):
    path = tmp_path / "text"
    path.write_text(" a\u00a0b\tc  d\n\n", encoding="utf-8")
    assert list(TextFile(path)) == [["a\u00a0b", "c", "d"], []]


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
    ids = word_ids(pieces, bpe, words=words)
    assert len(ids) == len(pieces)
    assert ids == sorted(ids)
    if not any(mark in word for word in words for mark in "▁@\u0301"):
        assert ids == expected


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
