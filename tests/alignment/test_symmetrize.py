"""Symmetrization against the textbook's loops, by hand, and by what every heuristic must keep."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_normalign.alignment.symmetrize import HEURISTICS, VARIANTS, symmetrize
from fairseq_normalign.text.links import parse_links

RULES = [
    (heuristic, variant)
    for heuristic, variant in itertools.product(HEURISTICS, VARIANTS)
    if (heuristic, variant) != ("grow-diag-final", "lilt")
]
GROWING = [rule for rule in RULES if rule[0].startswith("grow")]
directions = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=14)


def slow_symmetrize(forward, reverse, heuristic, variant):
    """Koehn et al. (2003) in the Moses manual's notation, until nothing changes.

    e runs over rows, f over columns.
    """
    moses = variant == "moses"
    if moses:  # rows are target words
        forward, reverse = ({(t, s) for s, t in links} for links in (forward, reverse))
    union, alignment = forward | reverse, forward & reverse
    size = range(1 + max((max(link) for link in union), default=-1))
    upper = [(-1, -1), (-1, 1)] if moses else [(-1, 1), (-1, -1)]
    diagonal = [*upper, (1, -1), (1, 1)]

    def free(e, f):
        return [all(a != e for a, _ in alignment), all(b != f for _, b in alignment)]

    def grow():
        added = False
        for e in size:
            for f in size:
                if (e, f) not in alignment:
                    continue
                for de, df in [(-1, 0), (0, -1), (1, 0), (0, 1), *diagonal]:
                    new = (e + de, f + df)
                    if new in union - alignment and (any if moses else all)(free(*new)):
                        alignment.add(new)
                        added = True
        return added

    while grow():
        pass
    for links in (forward, reverse) if heuristic != "grow-diag" else ():
        for e in size:
            for f in size:
                if (e, f) in links - alignment and (all if heuristic.endswith("and") else any)(
                    free(e, f)
                ):
                    alignment.add((e, f))
    return {(s, t) for t, s in alignment} if moses else alignment


@settings(deadline=None, max_examples=300)
@given(directions, directions, st.sampled_from(GROWING))
def test_growing_has_a_slow_twin(forward, reverse, rule):
    heuristic, variant = rule
    assert symmetrize(forward, reverse, heuristic, variant=variant) == slow_symmetrize(
        forward, reverse, heuristic, variant
    )


@settings(deadline=None)
@given(directions, directions)
def test_heuristics_are_nested(forward, reverse):
    for variant in VARIANTS:
        grown = symmetrize(forward, reverse, "grow-diag", variant=variant)
        assert grown <= symmetrize(forward, reverse, "grow-diag-final-and", variant=variant)
    assert symmetrize(forward, reverse, "grow-diag") <= symmetrize(
        forward, reverse, "grow-diag-final"
    )


@pytest.mark.parametrize(
    ("forward", "reverse", "heuristic", "variant", "expected"),
    [
        # 1-1 is beside 0-0 and both its words are free.
        ("0-0 1-1", "0-0", "grow-diag", "moses", "0-0 1-1"),
        # 0-1 is beside 0-0 and has one free word: enough for moses.
        ("0-0 0-1", "0-0", "grow-diag", "moses", "0-0 0-1"),
        ("0-0 0-1", "0-0", "grow-diag", "lilt", "0-0"),
        # 0-3 has one free word: final takes it, final-and does not.
        ("0-0 0-3", "0-0", "grow-diag-final-and", "moses", "0-0"),
        ("0-0 0-3", "0-0", "grow-diag-final", "moses", "0-0 0-3"),
        # 0-1 and 1-0 compete for nothing, 1-1 has no free word left after them.
        ("0-0 0-1 1-1", "0-0 1-0", "grow-diag", "moses", "0-0 0-1 1-0"),
        # The diagonals of 1-1 visited first win: source 0 goes to target 2 before target 0.
        ("1-1 0-0", "1-1 0-2", "grow-diag", "lilt", "1-1 0-2"),
        ("0-0", "", "intersection", "moses", ""),
        ("0-0", "1-1", "union", "moses", "0-0 1-1"),
    ],
)
def test_by_hand(forward, reverse, heuristic, variant, expected):
    links = symmetrize(parse_links(forward), parse_links(reverse), heuristic, variant=variant)
    assert links == parse_links(expected)
