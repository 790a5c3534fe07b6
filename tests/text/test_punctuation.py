import numpy as np
import pytest

from fairseq_normalign.text.words import final_punctuation, is_punctuation, settle_punctuation


@pytest.mark.parametrize("word", [".", "?", "...", "。", "؟", "।", "»", "—", "。」"])
def test_punctuation_of_any_script(word):
    assert is_punctuation(word)


@pytest.mark.parametrize("word", ["", "haus", "haus.", "3", "$", "+", "<unk>", "e."])
def test_no_punctuation(word):
    assert not is_punctuation(word)


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
