from fairseq_normalign.alignment.agreement import agreement

A = [{(0, 0), (1, 1)}, {(0, 0)}]
B = [{(0, 0), (1, 2)}, {(0, 0), (1, 1)}]
NONE = [set(), set()]


def test_dice_over_the_corpus():
    assert agreement(A, B) == 2 * 2 / (3 + 4)
    assert agreement(A, A) == 1
    assert agreement(A, NONE) == agreement(NONE, NONE) == 0
