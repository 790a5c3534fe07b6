"""All pictures have one look, in every format."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fairseq_normalign.results.figure import in_style, save

PICTURES = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


@in_style
def drawn():
    figure = Figure()
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.set_title("a title")
    axes.plot([1, 2])
    return figure


@pytest.mark.parametrize(("ending", "beginning"), PICTURES.items())
def test_every_format_is_written(ending, beginning, tmp_path):
    path = tmp_path / f"x{ending}"
    save(drawn(), path)
    assert path.read_bytes().startswith(beginning)
