"""One set of blocks in every form: text, JSON, CSV, Markdown, LaTeX, notebook, figure, mean."""

from __future__ import annotations

import json

import pytest

from fairseq_normalign.results.blocks import (
    Choice,
    Cloud,
    Clouds,
    Curve,
    Curves,
    Facts,
    Grid,
    Note,
    Option,
    Point,
    Row,
    Table,
)
from fairseq_normalign.results.figure import drawn
from fairseq_normalign.results.result import StoredResult, stored_result
from fairseq_normalign.results.several import together
from fairseq_normalign.results.text import as_format

EVIL = "<script>alert(1)</script>"
TABLE = Table(["method", "AER", "links"], [["norms", 37.21, 12], [EVIL, None, 3]], "Errors", 1)
GRID = Grid("norm", "layer", "head", ["1", "2"], ["1", "2"], [[0.25, 0.5], [None, 1.0]], unit="%")
CURVES = Curves(
    "loss", "layer", "nats", [Curve("a", [Point("1", 3.0), Point("2", 4.0, 3.5, 4.5, marked=True)])]
)
BLOCKS = [
    Note("A note."),
    Facts([("gold", "test.talp")], "Data"),
    Row([TABLE, GRID]),
    Choice("model", [Option("first", [CURVES]), Option("second", [Note("hidden")])], listed=[0]),
    Table(["n"], [[1]], "For programs", name="data", hidden=True),
    Clouds("cloud", "x", "y", [Cloud("c", [(1.0, 2.0)])]),
]
RESULT = StoredResult("made-up", "Made up", BLOCKS, signature={"seed": 1})


def test_text():
    assert RESULT.text() == (
        "A note.\n\nData\ngold: test.talp\n\n"
        "Errors\n"
        "method                      AER  links\n"
        "norms                      37.2     12\n"
        "<script>alert(1)</script>     –      3\n\n"
        "norm in %\nlayer      1      2\n1      0.250  0.500\n2          –  1.000\n\n"
        "loss\nlayer     a\n1      3.00\n2      4.00"
    )


def test_json_holds_all_of_it():
    again = stored_result(json.loads(json.dumps(RESULT.json())), "x.json")
    assert again.json() == RESULT.json()
    assert again.text() == RESULT.text()
    assert again.tables()["data"].rows == [[1]]


def test_all_digits_and_hidden_tables_in_csv():
    assert as_format([TABLE], "csv") == f"method,AER,links\nnorms,37.21,12\n{EVIL},,3"
    assert "# data\nn\n1" in as_format(BLOCKS, "csv")


@pytest.mark.parametrize("form", ["csv", "md", "latex"])
def test_a_table_without_rows(form):
    empty = StoredResult("made-up", "Made up", [Table(["a", "b"], [], "Empty")])
    assert "a" in as_format(empty.blocks(), form)
    assert "a" in empty._repr_html_()


def test_notebooks_escape_text():
    html = RESULT._repr_html_()
    assert "<script" not in html
    assert "37.2" in html
    assert "seed:1" in html


def test_a_figure_has_a_panel_for_each_picture():
    figure = drawn(BLOCKS, "Made up")
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles == ["norm in %", "loss", "cloud"]
    assert figure.get_size_inches()[0] <= 13
    with pytest.raises(ValueError, match="no numbers to draw"):
        drawn([Note("only text")])


def test_mean_and_deviation_of_several_models():
    other = Table(["method", "AER", "links"], [["norms", 39.21, 12], [EVIL, None, 5]], "Errors", 1)
    results = {
        "a": StoredResult("made-up", "Made up", [TABLE]),
        "b": StoredResult("made-up", "Made up", [other]),
    }
    text = together(results, {}).text()
    assert text.startswith("Mean ± sample deviation of 2 models.")
    assert "38.2 ±1.4" in text
    assert together({"a": results["a"]}, {}) is results["a"]
