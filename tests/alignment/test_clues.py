from math import log

import numpy as np
import pytest

from fairseq_normalign.alignment.learned import CLUES, clues, identical, neighbours, position
from fairseq_normalign.alignment.lexicon import Lexicon

SOFT = np.random.default_rng(3).random((3, 4))


def test_neighbours_are_those_on_the_diagonal():
    expected = neighbours(SOFT)
    for t in range(3):
        for s in range(4):
            before = SOFT[t - 1, s - 1] if t and s else 0
            behind = SOFT[t + 1, s + 1] if t < 2 and s < 3 else 0
            assert expected[t, s] == pytest.approx(log((before + behind) / 2 + 0.01))


def test_identical_words():
    assert identical(["A", "7", "."], ["7", "."]).tolist() == [[0, 1, 0], [0, 0, 1]]


def test_position_is_relative():
    assert position(1, 1).tolist() == [[0]]
    np.testing.assert_allclose(position(2, 4)[0], [-0.125, -0.125, -0.375, -0.625])


def test_all_of_them_and_none_of_no_words():
    words = list("abcd"), list("xyz")
    assert clues(*words, SOFT, Lexicon()).shape == (len(CLUES), 3, 4)
    assert clues([], ["x"], np.zeros((1, 0)), Lexicon()).shape == (len(CLUES), 1, 0)
    assert clues(["a"], [], np.zeros((0, 1)), Lexicon()).shape == (len(CLUES), 0, 1)
