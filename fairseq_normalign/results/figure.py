"""Blocks as one figure: a panel for each map, each set of curves and each set of clouds.

Dark means good, or high where nothing is good or bad; black text can be read on the darkest blue.
"""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cycler import cycler
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import whole_file
from fairseq_normalign.results.blocks import Block, Clouds, Curves, Grid, Heading, Point, walk

WIDEST = 13.0  # inches: what fits on a screen at 100 dots an inch
PANEL = (4.2, 3.1)  # inches of curves and clouds
CELL = (0.52, 0.34)  # inches of a map's cell
LETTERS = 9  # of a title, in an inch
HEADROOM = 1.25  # of the colours above the highest value
MARKERS = "os^xD+v*"

Panel = Grid | Curves | Clouds

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


in_style = style.context(["default", STYLE])  # a decorator of functions that draw or save


@in_style
def drawn(blocks: Sequence[Block], title: str = "") -> Figure:
    """All pictures of a result; blocks without any, as notes and tables, are left out."""
    lines = _lines(blocks)
    if not lines:
        raise InputError("--plot: the result has no numbers to draw")
    widths = [[_size(block)[0] for _, block in line] for line in lines]
    heights = [max(_size(block)[1] for _, block in line) for line in lines]
    widest = max(map(sum, widths))
    figure = Figure(figsize=(widest, sum(heights) + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    parts = figure.subfigures(len(lines), 1, height_ratios=heights, squeeze=False)[:, 0]
    meanings: dict[str, None] = {}  # of letters in cells, rings and dashes
    for part, line, of_line in zip(parts, lines, widths, strict=True):
        ratios = [*of_line, widest - sum(of_line) + 0.01]  # what is left is empty
        *every_axes, rest = part.subplots(1, len(ratios), width_ratios=ratios)
        rest.set_axis_off()
        for axes, (about, block), width in zip(every_axes, line, of_line, strict=True):
            unit = getattr(block, "unit", "")
            title_of = f"{block.title} in {unit}" if unit else block.title
            words = [
                about,
                f"{title_of} (low is dark)" if getattr(block, "low", False) else title_of,
            ]
            room = int(width * LETTERS)  # neighbours' titles must not meet
            axes.set_title("\n".join(textwrap.fill(text, room) for text in words if text))
            DRAW[type(block)](axes, block)
            if isinstance(block, Curves):
                meanings[block.mark and f"◎ {block.mark}."] = meanings[block.dashes] = None
            elif isinstance(block, Grid) and any(map(any, block.marks)):
                meanings[block.mark] = None
    figure.suptitle(title)
    figure.supxlabel(" ".join(filter(None, meanings)), fontsize=8)
    return figure


def _lines(blocks: Sequence[Block]) -> list[list[tuple[str, Panel]]]:
    """Panels and what they are about, as many in a line as fit; each heading begins a new one."""
    lines: list[list[tuple[str, Panel]]] = []
    about, room = "", 0.0
    for block in walk(blocks):
        if isinstance(block, Heading):
            about, room = block.text, 0.0
        if isinstance(block, (Grid, Curves, Clouds)):
            width, _ = _size(block)
            if width > room:
                lines.append([])
                room = WIDEST
            lines[-1].append((about, block))
            room -= width
    return lines


def _size(block: Panel) -> tuple[float, float]:
    """Inches of a panel with its labels."""
    if not isinstance(block, Grid):
        return PANEL
    names = max(map(len, block.columns), default=1)
    width = max(2.6, CELL[0] * len(block.columns) + 1.1)
    height = CELL[1] * len(block.rows) + 1.0 + (0.06 * names if names > 4 else 0)
    return min(width, WIDEST), height


def draw_grid(axes: Axes, grid: Grid) -> None:
    """A heat map with the number in each cell; colours begin at 0 if no value is negative."""
    values = np.array(grid.values, dtype=float).reshape(len(grid.rows), len(grid.columns))
    known = values[np.isfinite(values)]
    low, high = grid.ends or (known.min(initial=0.0), known.max(initial=0.0))
    low = min(0.0, float(low))
    high = low + HEADROOM * max(float(high) - low, 1e-9)
    shades = (high + low - values) if grid.low else values
    axes.imshow(shades, cmap=HEAT, vmin=low, vmax=high, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        text = "–" if math.isnan(value) else f"{value:.{min(grid.decimals, 2)}f}"
        mark = grid.marks[row][column] if grid.marks else ""
        text = f"{text} {mark}" if mark else text
        axes.text(column, row, text, ha="center", va="center", fontsize=7)
    long_names = max(map(len, grid.columns), default=0) > 4
    turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if long_names else {}
    axes.set_xticks(range(len(grid.columns)), list(grid.columns), **turned)
    axes.set_yticks(range(len(grid.rows)), list(grid.rows))
    axes.set(xlabel=grid.column_title, ylabel=grid.row_title)
    axes.tick_params(length=0)


def draw_curves(axes: Axes, block: Curves) -> None:
    """Lines over numbers or names, with intervals as bars; marked points are rings."""
    for number, curve in enumerate(block.curves):
        colour = COLOURS[(number if curve.colour is None else curve.colour) % len(COLOURS)]
        look: dict[str, Any] = {"color": colour, "marker": MARKERS[number % 8]}
        xs = [point.x for point in curve.points]  # matplotlib places names side by side
        ys = [point.y for point in curve.points]
        line = "--" if curve.dashed else "-"
        axes.plot(xs, ys, line, label=curve.name, **look)
        for point in curve.points:
            _draw_point(axes, point, colour)
        if all(isinstance(x, int) for x in xs):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel=block.x_title, ylabel=block.y_title)
    if block.zero:
        axes.set_ylim(bottom=0)
    if block.colours:
        colours = zip(block.colours, COLOURS * 9, strict=False)
        axes.legend(handles=[Patch(color=colour, label=name) for name, colour in colours])
    elif len(block.curves) > 1 or (block.curves and block.curves[0].name):
        axes.legend()


def _draw_point(axes: Axes, point: Point, colour: str) -> None:
    """What is known of a point beside its place on the line."""
    if point.low is not None and point.high is not None:
        axes.plot([point.x] * 2, [point.low, point.high], color=colour, alpha=0.5)
    if point.marked:
        axes.plot([point.x], [point.y], "o", ms=9, mfc="none", color=colour)
    beside: dict[str, Any] = {"xytext": (4, -9), "textcoords": "offset points", "fontsize": 7}
    axes.annotate(point.note, (point.x, point.y), **beside)


def draw_clouds(axes: Axes, block: Clouds) -> None:
    """Points of each cloud, by marker and colour."""
    for place, cloud in enumerate(block.clouds):
        xs, ys = zip(*cloud.points, strict=True) if cloud.points else ((), ())
        look: dict[str, Any] = {"marker": MARKERS[place % 8], "color": COLOURS[place % 8]}
        axes.scatter(xs, ys, s=6, alpha=0.5, linewidths=0.5, label=cloud.name, **look)
    if block.log_x:
        axes.set_xscale("log")
    axes.set(xlabel=block.x_title, ylabel=block.y_title)
    if any(cloud.name for cloud in block.clouds):
        axes.legend(frameon=True, edgecolor="none")  # can be read above points


DRAW: dict[type, Callable] = {Grid: draw_grid, Curves: draw_curves, Clouds: draw_clouds}


@in_style
def save(figure: Figure, path: str | Path) -> None:
    """Writes a picture in the format that its name asks for; in PDF and SVG, text stays text."""
    with (
        warnings.catch_warnings(),
        whole_file(path, binary=True) as file,
    ):
        warnings.filterwarnings("ignore", "Glyph .* missing")  # `families_for` has warned
        figure.savefig(file, dpi=150, bbox_inches="tight", format=Path(path).suffix[1:])
