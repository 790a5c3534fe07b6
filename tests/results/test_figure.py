"""All pictures have one look, in every format."""

import matplotlib as mpl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from fairseq_normalign.results.figure import COLOURS, HEAT, in_style, save

PICTURES = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


@in_style
def drawn():
    figure = Figure()
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.set_title("a title")
    axes.plot([1, 2])
    return figure


def test_settings_of_the_user_do_not_count():
    with mpl.rc_context({"font.size": 30, "axes.titlesize": 40, "axes.spines.top": True}):
        (axes,) = drawn().axes
    assert axes.title.get_fontsize() == 10
    assert not axes.spines["top"].get_visible()
    assert to_hex(axes.lines[0].get_color()) == COLOURS[0]


def brightness(colour):
    """Relative luminance (WCAG 2.2)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_black_text_can_be_read_on_every_heat():
    shades = [brightness(HEAT(step / 10)) for step in range(11)]
    assert shades == sorted(shades, reverse=True)
    contrast = (min(shades) + 0.05) / 0.05
    assert contrast >= 4.5


@pytest.mark.parametrize(("ending", "beginning"), PICTURES.items())
def test_every_format_is_written(ending, beginning, tmp_path):
    path = tmp_path / f"x{ending}"
    save(drawn(), path)
    assert path.read_bytes().startswith(beginning)
