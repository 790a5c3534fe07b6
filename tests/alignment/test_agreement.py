import numpy as np
import pytest

from fairseq_normalign.alignment.agreement import above_chance, agreement, consistency
from fairseq_normalign.attention.extract import mutual_argmax

A = [{(0, 0), (1, 1)}, {(0, 0)}]
B = [{(0, 0), (1, 2)}, {(0, 0), (1, 1)}]
NONE = [set(), set()]


def test_dice_over_the_corpus():
    assert agreement(A, B) == 2 * 2 / (3 + 4)
    assert agreement(A, A) == 1
    assert agreement(A, NONE) == agreement(NONE, NONE) == 0


def test_links_that_repeat():
    assert consistency({}) == consistency({("das", "the"): 1, ("haus", "house"): 1}) == 0
    assert consistency({("das", "the"): 3}) == 3 * 2 / 3
    assert consistency({("das", "the"): 3, ("das", "house"): 2, ("ein", "the"): 1}) == (6 + 2) / 5


def test_agreement_above_chance():
    generator = np.random.default_rng(1)
    matrices = [generator.random((targets, 6)) for targets in (1, 3, 6, 9) for _ in range(500)]
    shapes = [matrix.shape for matrix in matrices]
    mutual = sum(len(mutual_argmax(matrix)) for matrix in matrices)
    assert above_chance(mutual, shapes) == pytest.approx(0, abs=0.03)
    assert above_chance(sum(map(min, shapes)), shapes) == 1
    assert above_chance(1, [(4, 4)]) == (1 - 16 / 7) / (4 - 16 / 7)
    assert above_chance(0, []) == above_chance(2, [(1, 7), (1, 1), (0, 3)]) == 1  # nothing to say
