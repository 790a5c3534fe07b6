"""Scores by band."""

from collections import Counter
from functools import partial

import pytest

from fairseq_normalign.alignment.aer import Counts
from fairseq_normalign.alignment.breakdown import KINDS, Breakdown, check_bounds
from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import Gold

SYSTEM = {(0, 0), (1, 1), (5, 0)}
GOLD = Gold({(0, 0), (1, 2)}, {(0, 0), (1, 2), (1, 1)})
SOURCE, TARGET = list("aabaac"), list("xyz")
DISTANCES = [("0", Counts(2, 1, 2, 1)), ("1", Counts(0, 1, 0, 0)), ("4–7", Counts(1, 0, 0, 0))]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("distance", DISTANCES),
        ("length", [("1–10", Counts(3, 2, 2, 1))]),
        ("source-frequency", [("0", Counts(1, 0, 0, 0)), ("10–99", Counts(2, 2, 2, 1))]),
        ("target-frequency", [("0", Counts(3, 2, 2, 1))]),
    ],
)
def test_bands(kind, expected):
    bands = Breakdown(kind, 1, Counter({"a": 12}) if kind == "source-frequency" else None)
    bands(1, GOLD, [SYSTEM, SOURCE, TARGET])
    assert list(bands.table(0).items()) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_bands_add_up(kind):
    bands = Breakdown(kind, 2, Counter([*SOURCE, *TARGET]))
    for number in (1, 2):
        bands(number, GOLD, [SYSTEM, set(), SOURCE, TARGET])
    assert sum(bands.table(0).values(), Counts()) == Counts(6, 4, 4, 2)
    assert sum(bands.table(1).values(), Counts()) == Counts(0, 4, 0, 0)


def test_links_outside_the_sentence_are_refused():
    check = partial(check_bounds, ["gold", "hyp"], "src", "tgt")
    check(1, GOLD, [SYSTEM, SOURCE, TARGET])
    with pytest.raises(
        InputError, match=r"hyp:7: links word 6 of 5 in src:7; is this the tokenised text"
    ):
        check(7, GOLD, [SYSTEM, SOURCE[:5], TARGET])
    with pytest.raises(InputError, match=r"gold:7: links word 3 of 2 in tgt:7"):
        check(7, GOLD, [SYSTEM, SOURCE, TARGET[:2]])
    with pytest.raises(InputError, match=r"gold:7: links word 3 of 2 in tgt:7"):
        check_bounds(["gold", "hyp"], None, "tgt", 7, GOLD, [SYSTEM, TARGET[:2]])
