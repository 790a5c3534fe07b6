"""One look for all pictures: the same letters, lines and colours, whatever matplotlibrc says."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from cycler import cycler
from matplotlib import style
from matplotlib.colors import LinearSegmentedColormap

Options = ParamSpec("Options")
Result = TypeVar("Result")

# Of heat maps: black text and frames can be read on the darkest blue, and in grey, too.
HEAT = LinearSegmentedColormap.from_list("normalign", ["#ffffff", "#3585c6"])

# Of curves, as on the page of `normalign report`.
COLOURS = (
    *("#0b5cad", "#c4570a", "#16794c", "#a12a7d"),
    *("#8a6d00", "#3c7d93", "#7a4fc0", "#5b6570"),
)

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "axes.linewidth": 0.7,
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.titlesize": 11,
    "grid.alpha": 0.4,
    "grid.linewidth": 0.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    # In PDF and SVG text stays text.
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
}


def in_style(draw: Callable[Options, Result]) -> Callable[Options, Result]:
    """A function that draws, or saves, in the one look."""

    @wraps(draw)
    def drawn(*args: Options.args, **options: Options.kwargs) -> Result:
        with style.context(["default", STYLE]):
            return draw(*args, **options)

    return drawn
