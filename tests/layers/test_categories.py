import math

import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.layers.categories import (
    PRESETS,
    Token,
    parse_categories,
    rank_by_count,
    rank_by_id,
)


def token(symbol, *, index=50, special=False, continues=False):
    return Token(index, symbol, symbol.replace("▁", ""), special, continues)


PIECES = [
    (token("</s>", special=True), "special"),
    (token("▁,"), "punctuation"),
    (token("...", continues=True), "punctuation"),
    (token("▁€"), "punctuation"),
    (token("ing", continues=True), "continuation"),
    (token("▁go"), "word"),
    (token("▁"), "word"),  # nothing but a mark
    (token("<unk>"), "word"),
]
BERT = [
    (token("[CLS]", special=True), "[CLS]", "[CLS]"),
    (token("<s>", special=True), "[CLS]", "[CLS]"),
    (token("</s>", special=True), "[SEP]", "[SEP]"),
    (token("[MASK]", special=True), "other", "[MASK]"),
    (token(","), "period/comma", "Normal"),
    (token("word"), "other", "Normal"),
]


@pytest.mark.parametrize(("given", "name"), PIECES)
def test_pieces(given, name):
    categories = PRESETS["pieces"]
    assert categories.names[categories.index(given)] == name


@pytest.mark.parametrize(("given", "in_2020", "in_2021"), BERT)
def test_bert(given, in_2020, in_2021):
    for preset, name in (("bert-2020", in_2020), ("bert-2021", in_2021)):
        categories = PRESETS[preset]
        assert categories.names[categories.index(given)] == name


def test_the_first_pattern_that_matches_a_whole_token_wins():
    categories = parse_categories("pieces", ["a=▁?x+", "b=▁?x.*", r"cls=\[CLS\]"])
    assert categories.names == ["a", "b", "cls", "other"]
    found = [categories.index(token(symbol)) for symbol in ("▁xx", "xy", "ax", "[CLS]", "C")]
    assert found == [0, 1, 3, 2, 3]


WRONG = {
    "nothing": "--category nothing: write NAME=REGEX",
    "=x": "--category =x: write NAME=REGEX",
    "a=": "--category a=: write NAME=REGEX",
    "a=[": r"--category a=\[: unterminated character set.*; this is no regular expression",
    "other=x": "--category other: this name is taken; choose another",
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_patterns(text):
    with pytest.raises(InputError, match=WRONG[text]):
        parse_categories("pieces", [text])


# Kobayashi et al. (2020), footnotes 5 and 6.
BY_ID = [
    (token("▁,"), 1),
    (token("."), 2),
    (token("</s>", special=True), 3),
    (token("[SEP]", special=True), 3),
    (token("[CLS]", special=True), 4),
    (token("▁go", index=10), 14),
    (token("▁going", index=11), 15),
    (token("▁a"), math.nan),
    (token("▁"), math.nan),
    (token("<unk>", index=3), math.nan),
    (token("[MASK]", special=True), math.nan),
]


@pytest.mark.parametrize(("given", "rank"), BY_ID)
def test_rank_by_id(given, rank):
    assert rank_by_id(given, "") == pytest.approx(rank, nan_ok=True)


def test_rank_by_count_of_pieces():
    ranks = rank_by_count({"▁a": 9, "b": 5, "c": 5, "▁d": 1})
    found = [ranks(token(symbol), "") for symbol in ("▁a", "b", "c", "▁d", "e")]
    assert found == [1, 2, 2, 4, 5]
    assert ranks(token("</s>", special=True), "") == 0
    assert math.isnan(ranks(token("<unk>"), ""))


def test_rank_by_count_of_words():
    ranks = rank_by_count({"go": 9, "going": 5}, of_words=True)
    assert ranks(token("ing"), "going") == 2
    assert ranks(token("<unk>"), "go") == 1
    assert math.isnan(ranks(token("[MASK]"), "go"))
