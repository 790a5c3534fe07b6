from itertools import pairwise

import pytest

from fairseq_normalign.report.gates import picture, spread, table
from tests.heads.test_relevance_log import END, START


def test_a_line_for_each_entry():
    lines = table([START, END]).splitlines()
    assert lines[:3] == [
        "updates  open  encoder  cross   stay     go    now  first",
        "      0     4        2      2  0.450  0.550      –      –",
        "     50     2        1      1  0.875  0.125  +1.00  +0.00",
    ]
    assert lines[3].startswith("Open heads at test time;")


def test_only_open_heads():
    assert table([START]).splitlines()[1].split() == ["0", "4", "2", "2", "0.500", "–", "–", "–"]


def test_a_line_for_each_head():
    figure = picture([START, END])
    assert len(figure.axes) == 4
    relevance = figure.axes[0]
    assert relevance.get_title() == "encoder self-attention"
    assert [list(line.get_ydata()) for line in relevance.lines] == [[0.6, 1.0], [0.4, 0]]
    assert [line.get_linestyle() for line in relevance.lines] == ["-", "--"]
    opened = figure.axes[3]
    assert list(opened.lines[1].get_ydata()) == [0.9, 0.2]
    assert [note.get_text().strip() for note in opened.texts] == ["2.1", "2.2"]


def test_labels_do_not_overlap():
    assert spread([0.5, 0.0, 0.0, 0.9], 0.1) == pytest.approx([0.5, 0, 0.1, 0.9])
    assert spread([1.0, 1.0, 0.95], 0.1) == pytest.approx([0.9, 1.0, 0.8])
    assert spread([0.2], 0.1) == [0.2]
    crowded = sorted(spread([0.5] * 40, 0.045))
    assert all(above - below > 0.0449 for below, above in pairwise(crowded))
