"""Three made-up models side by side: text, tables and curves."""

import pytest

from fairseq_normalign.heads.comparison import Comparison, Row
from fairseq_normalign.names import Head


def row(name: str, heads: dict, bleu: float, speed: float, layer: int, **more) -> Row:
    named = []
    for kind, counts in heads.items():
        for place, count in enumerate(counts):
            named += [Head(kind, place, number) for number in range(count)]
    made = {"BLEU": "tok:none", "AER": f"AER|layer:auto:{layer}"}
    scores = {"BLEU": bleu, "AER": 37.25}
    return Row(name, tuple(named), 4_973_568, 19.94544, scores, made, speed, **more)


HALF = {"encoder": (0, 1), "decoder": (2, 0), "cross": (4, 3)}


@pytest.fixture
def rows():
    full = {"encoder": (4, 4), "decoder": (4, 4), "cross": (4, 4)}
    small = {"encoder": (0, 0), "decoder": (0, 0), "cross": (1, 2)}
    return Comparison(
        [
            row("half.pt", HALF, 20.55, 1.0, layer=1),
            row("full.pt", full, 21.34, 0.875, layer=2),
            row("small.pt", small, 9.96, 1.5, layer=1),
        ]
    )


TABLE = """\
model     heads  e  d  d-e  million parameters    MB  BLEU   AER  speed
half.pt      10  1  2    7                4.97  19.9  20.6  37.2   1.00
full.pt      24  8  8    8                4.97  19.9  21.3  37.2   0.88
small.pt      3  0  0    3                4.97  19.9  10.0  37.2   1.50
"""


def test_text(rows):
    assert rows.text().startswith(TABLE)
    assert rows.text().endswith(
        "\n\nBLEU: tok:none\nAER of half.pt, small.pt: AER|layer:auto:1\n"
        "AER of full.pt: AER|layer:auto:2"
    )
    assert Comparison(rows[::2]).text().endswith("\n\nBLEU: tok:none\nAER: AER|layer:auto:1")
    assert rows.tables()["heads"].rows[0] == ["half.pt", "encoder.2.1"]
    assert rows.signature["checkpoints"] == "half.pt+full.pt+small.pt"


def test_models_from_scratch_have_rows_and_a_curve_of_their_own(rows):
    again = row("again.pt", HALF, 16.5, 1.0, layer=1, from_scratch=True)
    shown = Comparison([*rows, again])
    assert "again.pt, from scratch     10" in shown.text()
    trained, scratch = shown.blocks()[0].blocks[0].curves
    assert len(trained.points) == 3
    assert (scratch.name, scratch.dashed, points(scratch)) == ("from scratch", True, [(10, 16.5)])


def points(curve):
    return [(point.x, point.y) for point in curve.points]


def test_curves_are_over_numbers_of_heads(rows):
    panels, layers, *_ = rows.blocks()
    bleu, aer, kinds = panels.blocks
    (curve,) = bleu.curves
    assert points(curve) == [(3, 9.96), (10, 20.55), (24, 21.34)]
    assert [point.note for point in curve.points] == ["small.pt", "half.pt", "full.pt"]
    assert (bleu.x_title, aer.about) == ("heads in all", "lower is better")
    assert {curve.name: points(curve) for curve in kinds.curves} == {
        "encoder self-attention": [(3, 0), (10, 1), (24, 8)],
        "decoder self-attention": [(3, 0), (10, 2), (24, 8)],
        "source–target attention": [(3, 3), (10, 7), (24, 8)],
    }
    assert layers.values == [[0, 1, 2, 0, 4, 3], [4] * 6, [0, 0, 0, 0, 1, 2]]
    assert list(layers.columns) == ["e 1", "e 2", "d 1", "d 2", "d-e 1", "d-e 2"]


def test_models_may_differ_in_depth_or_have_no_heads(rows):
    deep = row("a.pt", {"encoder": (4, 4, 2), "decoder": (1,), "cross": (3,)}, 20.0, 1.0, 1)
    assert Comparison([*rows, deep]).blocks()[1].values[-1] == [4, 4, 2, 1, 0, 3, 0]
    none = row("b.pt", {"encoder": (0,), "decoder": (0,), "cross": (0,)}, 0.0, 1.0, layer=1)
    assert Comparison([none]).figure().subfigs


def test_models_that_differ_in_one_kind_alone_are_drawn_by_it():
    """BLEU against encoder heads left (Voita et al., 2019, Fig. 7)."""
    rows = []
    for left in (4, 1, 2):
        heads = {"encoder": (left,), "decoder": (4,), "cross": (3,)}
        rows.append(row(f"{left}.pt", heads, 10.0 + left, 1.0, layer=1))
    assert Comparison(rows).varied_kind == "encoder"
    bleu, aer = Comparison(rows).blocks()[0].blocks
    assert points(bleu.curves[0]) == [(1, 11), (2, 12), (4, 14)]
    assert bleu.x_title == aer.x_title == "heads of encoder self-attention"
    assert Comparison(rows[:1]).varied_kind is None
