"""Pictures of soft alignments: what is drawn where."""

import warnings

import numpy as np
import pytest

from fairseq_normalign.alignment.pictures import Panel, soft_alignments
from fairseq_normalign.results.figure import save
from fairseq_normalign.text.links import Gold

SOFT = np.array([[0.5, 0.25, 0.0], [0.1, 0.1, 0.4]])
GOLD = Gold(sure={(0, 0)}, possible={(0, 0), (2, 1)})
TEXTS = ["das", "kostet", "5$"], ["$5", "each"]


def frames(axes):
    """The cell of each rectangle, and how it is drawn."""
    cells = {}
    for patch in axes.patches:
        centre = (patch.get_x() + patch.get_width() / 2, patch.get_y() + patch.get_height() / 2)
        style = patch.get_linestyle().replace("solid", "-")
        look = (patch.get_fill(), style, patch.get_hatch())
        cells[tuple(map(round, centre))] = look
    return cells


def test_gold_is_framed_where_there_are_no_links():
    figure = soft_alignments([[Panel("a", SOFT), Panel("b", 2 * SOFT)]], TEXTS, GOLD)
    first, second, scale = figure.axes
    assert (
        frames(first) == frames(second) == {(0, 0): (False, "-", None), (2, 1): (False, ":", None)}
    )
    np.testing.assert_allclose(first.images[0].get_array(), [[1, 0.5, 0], [0.25, 0.25, 1]])
    np.testing.assert_allclose(second.images[0].get_array(), first.images[0].get_array())
    assert scale.get_ylabel() == "share of the row's maximum"


def test_links_are_framed_and_the_gold_has_a_panel():
    panels = [[Panel("layer 1", SOFT, {(0, 0)}), Panel("layer 2", SOFT, set())]]
    figure = soft_alignments(panels, TEXTS, GOLD, title="pair 3")
    first, second, reference, _ = figure.axes
    assert frames(first) == {(0, 0): (False, "-", None)}
    assert frames(second) == {}
    assert frames(reference) == {(0, 0): (True, "-", None), (2, 1): (True, "-", "/////")}
    assert [axes.get_title() for axes in (first, second)] == ["layer 1", "layer 2"]
    assert figure.get_suptitle() == "pair 3"


@pytest.mark.parametrize("ending", [".png", ".pdf", ".svg"])
def test_pictures_are_written_with_any_words(ending, tmp_path):
    """Among them two dollars, which are no formula, and right-to-left words."""
    texts = ["$\\frac$", "שלום", "مرحبا"], ["a_b^c", "&<>"]
    figure = soft_alignments([[Panel("a", SOFT)]], texts, GOLD)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save(figure, tmp_path / f"x{ending}")
    beginnings = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}
    contents = (tmp_path / f"x{ending}").read_bytes()
    assert contents.startswith(beginnings[ending])
    if ending == ".svg":
        assert "שלום" in contents.decode()
