import math

import pytest

from fairseq_normalign.layers.categories import Token
from fairseq_normalign.layers.ranks import RankByCount, rank_by_id


def token(symbol, *, index=50, special=False):
    return Token(index, symbol, symbol.replace("▁", ""), special, False)


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
    ranks = RankByCount({"▁a": 9, "b": 5, "c": 5, "▁d": 1})
    found = [ranks(token(symbol), "") for symbol in ("▁a", "b", "c", "▁d", "e")]
    assert found == [1, 2, 2, 4, 5]
    assert ranks(token("</s>", special=True), "") == 0
    assert math.isnan(ranks(token("<unk>"), ""))


def test_rank_by_count_of_words():
    ranks = RankByCount({"go": 9, "going": 5}, of_words=True)
    assert ranks(token("ing"), "going") == 2
    assert ranks(token("<unk>"), "go") == 1
    assert math.isnan(ranks(token("[MASK]"), "go"))
