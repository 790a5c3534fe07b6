"""What rows learn from, against loops over words and pieces."""

import numpy as np
import pytest

from fairseq_normalign.alignment.link_labels import row_labels

PAIRS = [
    # links, words of source tokens, words of target tokens
    ([(0, 0), (1, 2), (2, 0)], [0, 0, 1, 2, -1], [0, 1, 1, 2, 2, -1]),
    ([], [0, -1], [0, 0, -1]),
    ([(0, 1)], [-1, 0, 1, -1], [-1, 0, 1, -1]),  # marks before the words, as language codes
    ([(1, 0)], [0, 2, -1], [0, -1]),  # a word that no piece spells
    ([], [-1], [-1]),  # no words
]


@pytest.mark.parametrize(("links", "source_ids", "target_ids"), PAIRS)
def test_labels_by_loops(links, source_ids, target_ids):
    labels, weights = row_labels(links, source_ids, target_ids, null_weight=0.3)
    assert labels.shape == (len(target_ids), len(source_ids))
    for row in range(len(target_ids)):
        read = target_ids[row - 1] if row else -1
        partners = [source for source, target in links if target == read]
        for column, word in enumerate(source_ids):
            expected = word in partners if partners else word == -1
            assert labels[row, column] == expected
        if read == -1 or not labels[row].any():
            assert weights[row] == 0
        else:
            assert weights[row] == np.float32(1 if partners else 0.3)


def test_the_first_row_and_marks_count_nothing():
    _, weights = row_labels([(0, 0)], [0, -1], [-1, 0, -1], null_weight=0.3)
    assert weights.tolist() == [0, 0, 1]
