"""Pairs that are too long: refused, skipped or cut off, and named at the end."""

import pytest

from fairseq_normalign.alignment.aligner import NormAligner
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.lengths import (
    Limits,
    TooLong,
    excess,
    fitted,
    limits_of,
    skipped,
    truncated,
)
from fairseq_normalign.host.pairs import PairReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from tests.conftest import ToyTask, build_model

LIMITS = Limits(4, 5)


@pytest.fixture
def reader():
    return PairReader(ToyTask(), scheme="subword_nmt")


@pytest.fixture
def pairs(reader):
    """Fits, too long a source, too long a target, both."""
    lines = [
        ("w1 w2 w3", "w1"),
        ("w1 w2@@ w3 w4", "w5 w6"),
        ("w1", "w1 w2 w3 w4 w5"),
        ("w1 w2 w3 w4", "w1 w2@@ w3@@ w4@@ w5"),
    ]
    return [reader.pair(*line, f"line {number}") for number, line in enumerate(lines, 1)]


def test_fail_names_the_first(pairs):
    with pytest.raises(
        InputError, match="line 2: the source has 5 pieces with </s>; the model takes 4"
    ):
        fitted(pairs, LIMITS)
    with pytest.raises(
        InputError, match="line 3: the target has 6 pieces with </s>; the model takes 5"
    ):
        fitted(pairs[2:], LIMITS)
    assert fitted(pairs, Limits(5, 6)) == pairs


def test_a_limit_of_the_users_own(pairs):
    limits = Limits(9, None).at_most(4)
    assert limits == (4, None)
    assert Limits(3, 5).at_most(4) == (3, 4)
    assert Limits(3, 5).at_most(None) == (3, 5)
    with pytest.raises(InputError, match="the source has 5 pieces with </s>; the model takes 4"):
        TooLong("fail").fit([pairs[1]], [limits])


def test_skip_leaves_the_special_tokens_and_the_words(pairs):
    told = "^3 pairs longer than the model takes skipped: line 2, line 3, line 4$"
    with pytest.warns(match=told):
        fitting = fitted(pairs, LIMITS, "skip")
    assert [pair.skipped for pair in fitting] == [False, True, True, True]
    assert fitting[0] is pairs[0]
    for before, after in zip(pairs[1:], fitting[1:], strict=True):
        for side in ("source", "target"):
            assert getattr(after, side).tokens.tolist() == [2]
            assert getattr(after, side).words == [-1]
            assert getattr(after, side).text == getattr(before, side).text


def test_truncate_cuts_the_end_off_and_keeps_the_special_tokens(pairs):
    with pytest.warns(match="^3 pairs longer than the model takes cut off"):
        fitting = fitted(pairs, LIMITS, "truncate")
    assert not any(pair.skipped for pair in fitting)
    assert all(not excess(pair, LIMITS) for pair in fitting)
    assert fitting[1].source.words == [0, 1, 1, -1]
    assert fitting[1].source.text == ["w1", "w2w3", "w4"]  # the last word has no tokens
    assert fitting[1].source.tokens.tolist() == [*pairs[1].source.tokens[:3].tolist(), 2]
    assert fitting[1].target is pairs[1].target
    assert fitting[2].target.words == [0, 1, 2, 3, -1]
    assert fitting[3].target.words == [0, 1, 1, 1, -1]


def test_what_is_too_long_for_one_model_is_skipped_for_all(reader):
    lines = [("w1 w2 w3", "w1"), ("w1", "w2"), ("w1", "w1 w2 w3 w4")]
    forward = [reader.pair(*line, f"line {number}") for number, line in enumerate(lines, 1)]
    backward = [reader.pair(*line[::-1], f"line {number}") for number, line in enumerate(lines, 1)]
    cases = [
        ([Limits(3, 9), Limits(9, 9)], [True, False, False]),
        ([Limits(9, 9), Limits(4, 3)], [True, False, True]),
    ]
    for limits, expected in cases:
        too_long = TooLong("skip")
        for pairs, is_skipped in zip(zip(forward, backward, strict=True), expected, strict=True):
            fitting = too_long.fit(pairs, limits)
            assert [pair.skipped for pair in fitting] == [is_skipped] * 2
        assert too_long.count == len(too_long.places) == sum(expected)
    cut = TooLong("truncate").fit([forward[0], backward[0]], [Limits(3, 9), Limits(9, 9)])
    assert [len(pair.source.tokens) for pair in cut] == [3, 2]


def test_special_tokens_before_and_after_stay():
    reader = PairReader(ToyTask())
    reader.source.before, reader.source.after = (7,), (2, 8)  # as mBART's, with --prepend-bos
    pair = reader.pair("w1 w2 w3", "w1", "line 1")
    cut = truncated(pair, Limits(5))
    assert cut.source.tokens.tolist() == [7, *pair.source.tokens[1:3].tolist(), 2, 8]
    assert cut.source.words == [-1, 0, 1, -1, -1]
    assert skipped(pair).source.tokens.tolist() == [7, 2, 8]


def test_what_was_cut_off_or_skipped_has_no_links(reader):
    lines = [("w1 w2 w3", "w4 w5"), ("w1 " * 70, "w3 w4"), ("w5", "w6")]
    pairs = [reader.pair(*line, f"line {number}") for number, line in enumerate(lines, 1)]
    model = build_model(task=reader.task)
    aligner = NormAligner(TeacherForcing(model, reader.task), reader, layer=1, step="input")
    evidence = Evidence("weights", 0, "input")

    def links(policy):
        with pytest.warns(match="1 pair longer"):
            fitting = fitted(pairs, limits_of(model), policy)
        softs = list(aligner.evidences_many(fitting, [evidence]))
        assert [soft.words.shape for (soft,) in softs] == [(2, 3), (2, 70), (1, 1)]
        return [aligner.links(soft._replace(null=None)) for (soft,) in softs]

    aligner.eos = "skip"
    skipping, cutting = links("skip"), links("truncate")
    assert skipping[1] == []
    assert skipping[::2] == cutting[::2]
    assert cutting[1]
    assert all(source < 63 for source, _ in cutting[1])
