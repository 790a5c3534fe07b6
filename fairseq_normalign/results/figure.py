"""Blocks as one figure: a panel for each map, each set of curves and each set of clouds.

Dark means good, or high where nothing is good or bad; black text can be read on the darkest blue.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fairseq_normalign.files import whole_file
from fairseq_normalign.results.blocks import Block, Clouds, Curves, Grid, Heading, walk
from fairseq_normalign.results.style import COLOURS, HEAT, in_style

WIDEST = 13.0  # inches: what fits on a screen at 100 dots an inch
PANEL = (4.2, 3.1)  # inches of curves and clouds
CELL = (0.52, 0.34)  # inches of a map's cell
HEADROOM = 1.25  # of the colours above the highest value
MARKERS = "os^xD+v*"


@in_style
def drawn(blocks: Sequence[Block], title: str = "") -> Figure:
    """All pictures of a result; blocks without any, as notes and tables, are left out."""
    panels: list[tuple[str, Grid | Curves | Clouds]] = []
    about = ""
    for block in walk(blocks):
        if isinstance(block, Heading):
            about = block.text
        if isinstance(block, (Grid, Curves, Clouds)):
            panels.append((about, block))
    if not panels:
        raise ValueError("nothing to draw")
    sizes = [_size(block) for _, block in panels]
    width, height = max(size[0] for size in sizes), max(size[1] for size in sizes)
    across = max(1, min(len(panels), int(WIDEST // width)))
    down = math.ceil(len(panels) / across)
    figure = Figure(
        figsize=(min(WIDEST, across * width), down * height + 0.4), layout="constrained"
    )
    FigureCanvasAgg(figure)
    every_axes = figure.subplots(down, across, squeeze=False).ravel()
    for axes, (above, block) in zip(every_axes, panels, strict=False):
        axes.set_title(f"{above}\n{block.title}" if above else block.title)
        draw(axes, block)
    for axes in every_axes[len(panels) :]:
        axes.set_axis_off()
    figure.suptitle(title)
    return figure


def _size(block: Grid | Curves | Clouds) -> tuple[float, float]:
    """Inches of a panel with its labels."""
    if not isinstance(block, Grid):
        return PANEL
    names = max((len(name) for name in block.columns), default=1)
    width = max(2.6, CELL[0] * len(block.columns) + 1.2)
    height = CELL[1] * len(block.rows) + 1.0 + (0.06 * names if names > 4 else 0)
    return min(width, WIDEST), height


def draw(axes: Axes, block: Grid | Curves | Clouds) -> None:
    """One panel."""
    if isinstance(block, Grid):
        draw_grid(axes, block)
    elif isinstance(block, Curves):
        draw_curves(axes, block)
    else:
        draw_clouds(axes, block)


def draw_grid(axes: Axes, grid: Grid) -> None:
    """A heat map with the number in each cell; colours begin at 0 if no value is negative."""
    values = np.array(
        [[math.nan if value is None else value for value in row] for row in grid.values],
        dtype=float,
    ).reshape(len(grid.rows), len(grid.columns))
    known = values[np.isfinite(values)]
    low, high = grid.ends or (known.min(initial=0.0), known.max(initial=0.0))
    low = min(0.0, float(low))
    high = low + HEADROOM * max(float(high) - low, 1e-9)
    shades = (high + low - values) if grid.low else values
    axes.imshow(shades, cmap=HEAT, vmin=low, vmax=high, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        text = "–" if math.isnan(value) else f"{value:.{min(grid.decimals, 2)}f}"
        if grid.marks and grid.marks[row][column]:
            text += f" {grid.marks[row][column]}"
        axes.text(column, row, text, ha="center", va="center", fontsize=7)
    long_names = max((len(name) for name in grid.columns), default=0) > 4
    turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if long_names else {}
    axes.set_xticks(range(len(grid.columns)), list(grid.columns), **turned)
    axes.set_yticks(range(len(grid.rows)), list(grid.rows))
    axes.set_xlabel(grid.column_title)
    axes.set_ylabel(grid.row_title)
    axes.tick_params(length=0)
    if grid.unit:
        axes.set_title(f"{axes.get_title()} in {grid.unit}")


def draw_curves(axes: Axes, block: Curves) -> None:
    """Lines over numbers or names, with intervals as bars; marked points are rings."""
    names = _names_on_axis(block)
    for place, curve in enumerate(block.curves):
        colour = COLOURS[(place if curve.colour is None else curve.colour) % len(COLOURS)]
        xs = [names[point.x] if isinstance(point.x, str) else point.x for point in curve.points]
        ys = [point.y for point in curve.points]
        line = "--" if curve.dashed else "-"
        axes.plot(xs, ys, line, color=colour, marker=MARKERS[place % 8], label=curve.name)
        for x, point in zip(xs, curve.points, strict=True):
            if point.low is not None and point.high is not None:
                axes.vlines(x, point.low, point.high, color=colour, alpha=0.5)
            if point.marked:
                axes.plot([x], [point.y], "o", ms=9, mfc="none", color=colour)
    if names:
        axes.set_xticks(list(names.values()), list(names))
    elif all(isinstance(point.x, int) for curve in block.curves for point in curve.points):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(block.x_title)
    axes.set_ylabel(block.y_title)
    if block.zero:
        axes.set_ylim(bottom=0)
    if len(block.curves) > 1 or (block.curves and block.curves[0].name):
        axes.legend()


def _names_on_axis(block: Curves) -> dict[str, int]:
    """The places of names; empty if the axis has numbers."""
    names: dict[str, int] = {}
    for curve in block.curves:
        for point in curve.points:
            if isinstance(point.x, str):
                names.setdefault(point.x, len(names))
    return names


def draw_clouds(axes: Axes, block: Clouds) -> None:
    """Points of each cloud, by marker and colour."""
    for place, cloud in enumerate(block.clouds):
        xs, ys = zip(*cloud.points, strict=True) if cloud.points else ((), ())
        look: dict[str, Any] = {
            "marker": MARKERS[place % 8],
            "color": COLOURS[place % len(COLOURS)],
        }
        axes.scatter(xs, ys, s=6, alpha=0.5, linewidths=0.5, label=cloud.name, **look)
    if block.log_x:
        axes.set_xscale("log")
    axes.set_xlabel(block.x_title)
    axes.set_ylabel(block.y_title)
    if any(cloud.name for cloud in block.clouds):
        axes.legend()


@in_style
def save(figure: Figure, path: str | Path) -> None:
    """Writes a picture in the format that its name asks for; in PDF and SVG, text stays text."""
    with (
        warnings.catch_warnings(),
        whole_file(path, binary=True) as file,
    ):
        warnings.filterwarnings("ignore", "Glyph .* missing")  # `fonts` has warned
        figure.savefig(file, dpi=150, bbox_inches="tight", format=Path(path).suffix[1:])
