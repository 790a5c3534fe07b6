"""Scores by hand, identities, and statistics against slow twins."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_normalign.alignment import aer
from fairseq_normalign.alignment.aer import Counts, count
from fairseq_normalign.text.links import (
    Gold,
    GoldFile,
    LinkFile,
    format_links,
    parse_gold,
    parse_links,
)

links = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12)
golds = st.builds(lambda sure, more: Gold(sure, sure | more), links, links)


@pytest.mark.parametrize(
    ("system", "gold", "expected"),  # expected: AER, precision, recall
    [
        ("0-0 1-1", "0-0 1-1", (0, 1, 1)),
        ("0-0 1-1", "0-0 1p1", (0, 1, 1)),  # a possible link does no harm
        ("0-0", "0-0 1p1", (0, 1, 1)),  # … nor does leaving it out
        ("0-0 2-2", "0-0 1-1", (1 / 2, 1 / 2, 1 / 2)),
        ("0-0 1-1 2-2", "0-0 1p1 3-3", (1 - 3 / 5, 2 / 3, 1 / 2)),
        ("", "0-0", (1, math.nan, 0)),
        ("0-0", "", (1, 0, math.nan)),
        ("", "", (math.nan, math.nan, math.nan)),
    ],
)
def test_scores_by_hand(system, gold, expected):
    counts = count(parse_links(system), parse_gold(gold))
    assert (counts.aer, counts.precision, counts.recall) == pytest.approx(expected, nan_ok=True)


def test_f_by_hand():
    counts = Counts(links=4, sure=5, in_possible=2, in_sure=2)  # P 1/2, R 2/5
    assert counts.f() == pytest.approx(2 * 0.5 * 0.4 / 0.9)
    assert counts.f(1) == pytest.approx(counts.precision)
    assert counts.f(0) == pytest.approx(counts.recall)
    assert Counts(3, 3, 0, 0).f() == 0
    assert math.isnan(Counts(0, 3, 0, 0).f())


@settings(deadline=None)
@given(st.lists(st.tuples(links, golds), max_size=8))
def test_identities(pairs):
    total = sum((count(*pair) for pair in pairs), Counts())
    assert 0 <= total.in_sure <= total.in_possible <= total.links
    assert total.in_sure <= total.sure
    assert math.isnan(total.aer) or 0 <= total.aer <= 1
    if all(gold.sure == gold.possible for _, gold in pairs) and total.in_sure:
        assert total.aer == pytest.approx(1 - total.f())  # without possible links AER is 1 - F1
    assert aer.aers(np.array(total)) == pytest.approx(total.aer, nan_ok=True)


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def gold_line(gold):
    possible = format_links(gold.possible - gold.sure).replace("-", "p")
    return f"{format_links(gold.sure)} {possible}"


@settings(deadline=None, max_examples=30)
@given(rows=st.lists(st.tuples(golds, links, links), max_size=8))
def test_files_score_like_sentences(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("files")
    gold = GoldFile(write(folder / "gold", [gold_line(row[0]) for row in rows]))
    systems = [
        LinkFile(write(folder / str(k), [format_links(row[k]) for row in rows])) for k in (1, 2)
    ]
    for k, score in enumerate(aer.score(gold, systems), 1):
        expected = [count(row[k], row[0]) for row in rows]
        assert Counts.total(score) == sum(expected, Counts())
        assert [tuple(row) for row in score] == expected


def random_counts(seed, size=40, right=0.7):
    random = np.random.default_rng(seed)
    links, sure = random.integers(3, 20, (2, size))
    in_sure = random.binomial(np.minimum(links, sure), right)
    return np.stack([links, sure, in_sure, in_sure], axis=1)


def test_bootstrap_has_a_slow_twin():
    counts = random_counts(0)
    random = np.random.default_rng(7)
    slow = []
    for _ in range(20):
        drawn = [counts[i] for i in random.integers(len(counts), size=len(counts))]
        slow.append(Counts(*np.sum(drawn, axis=0).tolist()).aer)
    np.testing.assert_allclose(aer.bootstrap(counts, samples=20, seed=7), slow)


def test_the_interval_holds_the_score_and_shrinks_with_the_corpus():
    counts = random_counts(1)
    low, high = aer.interval(counts)
    assert low < aer.aers(counts.sum(0)) < high
    more = np.tile(counts, (25, 1))
    narrow = aer.interval(more)
    assert (narrow[1] - narrow[0]) == pytest.approx((high - low) / 5, rel=0.2)
    assert aer.interval(counts) == (low, high)
    assert aer.interval(counts, seed=1) != (low, high)


def test_randomization_has_a_slow_twin():
    a, b = random_counts(2), random_counts(3, right=0.6)
    b[:, 1] = a[:, 1]  # the same gold
    b[:, 2:] = np.minimum(b[:, 2:], b[:, 1:2])
    random, extreme = np.random.default_rng(5), 0
    observed = abs(aer.aers(a.sum(0)) - aer.aers(b.sum(0)))
    for _ in range(50):
        swap = random.integers(2, size=len(a)).astype(bool)[:, None]
        one, other = np.where(swap, b, a), np.where(swap, a, b)
        extreme += abs(aer.aers(one.sum(0)) - aer.aers(other.sum(0))) >= observed
    assert aer.paired_p_value(a, b, samples=50, seed=5) == (1 + extreme) / 51


def test_p_values_tell_same_from_different():
    a = random_counts(4, size=100)
    worse = a - a[:, 2:3] // 2 * [0, 0, 1, 1]
    assert aer.paired_p_value(a, a) == 1
    assert aer.paired_p_value(a, worse) == 1 / 1001
    assert aer.paired_p_value(worse, a) == 1 / 1001


@pytest.mark.filterwarnings("error")
def test_the_interval_where_aer_is_not_always_defined():
    assert all(map(math.isnan, aer.interval(np.zeros((5, 4)))))
    assert aer.interval(np.array([[2, 2, 2, 2], [0, 0, 0, 0]])) == (0, 0)


def test_intervals_of_many_systems_are_those_of_each():
    systems = [random_counts(seed, size=60) for seed in (1, 2, 3)]
    together = aer.intervals(np.stack(systems, axis=1))
    assert together == [pytest.approx(aer.interval(counts)) for counts in systems]
    assert all(math.isnan(bound) for bound in aer.intervals(np.zeros((0, 1, 4)))[0])
