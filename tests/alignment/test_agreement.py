from fairseq_normalign.alignment.agreement import agreement, consistency

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
