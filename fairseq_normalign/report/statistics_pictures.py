"""Statistics of α and ‖f(x)‖ as pictures that need no colour.

Categories differ by their marker and line. Figures 3 and 6 of Kobayashi et al. (2020) are among
them; the others show what its section 4 and its appendices tell in tables and figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fairseq_normalign.layers.statistics import LayerStatistics, Statistics
from fairseq_normalign.names import KINDS
from fairseq_normalign.report.statistics import ByKind, shown_categories
from fairseq_normalign.results.style import in_style

POINTS = 400  # of a cloud, of each category
SMALLEST = 1e-4  # weight that is drawn
PANEL = (3.6, 3.2)  # inches
ACROSS = 4  # panels, where one kind of attention has all of them
LEGEND_COLUMNS = 2


class Style(NamedTuple):
    """How one category looks."""

    marker: str
    line: str
    grey: str


STYLES = (
    Style("o", "-", "0.0"),
    Style("s", "--", "0.35"),
    Style("^", ":", "0.2"),
    Style("x", "-.", "0.5"),
    Style("D", (0, (1, 3)), "0.1"),  # type: ignore[arg-type]
    Style("+", (0, (6, 2, 1, 2)), "0.6"),  # type: ignore[arg-type]
)


def style_of(place: int) -> Style:
    return STYLES[place % len(STYLES)]


def by_layer(
    axes: Axes, measured: Statistics, values: Callable[[LayerStatistics], np.ndarray], label: str
) -> None:
    """A line for each category, the mean over heads; a small mark for each head."""
    layers = [layer.layer + 1 for layer in measured.layers]
    kept = shown_categories(measured)
    for order, place in enumerate(kept):
        style = style_of(place)
        means = [values(layer)[:, place].mean() for layer in measured.layers]
        look: dict[str, Any] = {"marker": style.marker, "color": style.grey}
        axes.plot(layers, means, ls=style.line, label=measured.categories[place], **look)
        beside = 0.08 * (order - (len(kept) - 1) / 2)
        for layer in measured.layers:
            of_heads = values(layer)[:, place]
            across = np.full(len(of_heads), layer.layer + 1 + beside)
            axes.scatter(across, of_heads, s=7, alpha=0.6, linewidths=0.5, **look)
    axes.set_xticks(layers)
    axes.set_xlabel("layer")
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    legend(axes)


def weights(axes: Axes, measured: Statistics) -> None:
    """Fig. 3a: Σ α by layer and category."""
    by_layer(axes, measured, lambda layer: layer.weights, "Σ α")


def norms(axes: Axes, measured: Statistics) -> None:
    """Fig. 3b: Σ ‖αf(x)‖ by layer and category."""
    by_layer(axes, measured, lambda layer: layer.weighted, "Σ ‖αf(x)‖")


def transformed(axes: Axes, measured: Statistics) -> None:
    """‖f(x)‖ by layer and category."""
    by_layer(axes, measured, lambda layer: layer.by_category, "mean ‖f(x)‖")


def cells(axes: Axes, measured: Statistics) -> None:
    """α and ‖f(x)‖ of single cells, by category, with ρ."""
    for place in shown_categories(measured):
        points = some(measured.sampled_cells[place])
        rho = measured.cells[place].rho
        told = "" if rho is None else f", ρ {rho:+.2f}"
        cloud(axes, points[:, 0], points[:, 1], place, measured.categories[place] + told)
    axes.set_xscale("log")
    axes.set_xlim(left=SMALLEST, right=1.5)
    axes.set_xlabel("α (one cell of one head)")
    axes.set_ylabel("‖f(x)‖")
    axes.set_ylim(bottom=0)
    legend(axes)


def rank_weights(axes: Axes, measured: Statistics) -> None:
    """Fig. 6: frequency rank and α."""
    ranks(axes, measured, 2, "mean α", measured.rank_weights.rho)


def rank_norms(axes: Axes, measured: Statistics) -> None:
    """Fig. 6: frequency rank and ‖f(x)‖."""
    ranks(axes, measured, 3, "mean ‖f(x)‖", measured.rank_norms.rho)


def ranks(axes: Axes, measured: Statistics, column: int, label: str, rho: float | None) -> None:
    """Occurrences of tokens over their frequency rank, by category."""
    for place in shown_categories(measured):
        of_category = measured.occurrences[measured.occurrences[:, 1] == place]
        if len(of_category):
            points = some(of_category)
            across = np.maximum(points[:, 0], 1)
            cloud(axes, across, points[:, column], place, measured.categories[place])
    axes.set_xscale("log")
    axes.set_xlabel("frequency rank" if rho is None else f"frequency rank (ρ {rho:+.2f})")
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    legend(axes)


def cloud(axes: Axes, across: np.ndarray, up: np.ndarray, place: int, label: str) -> None:
    """The points of one category: hollow, so that those below can be seen."""
    style = style_of(place)
    filled = style.marker in "x+"  # which have no inside
    look: dict[str, Any] = {"c": style.grey} if filled else {"edgecolors": style.grey}
    if not filled:
        look["facecolors"] = "none"
    axes.scatter(across, up, s=14, marker=style.marker, linewidths=0.6, label=label, **look)


def legend(axes: Axes) -> None:
    """Above the panel, where it hides nothing."""
    place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}
    axes.legend(fontsize=7, ncols=LEGEND_COLUMNS, frameon=False, borderaxespad=0.2, **place)


def spread(axes: Axes, measured: Statistics) -> None:
    """‖f(x)‖ of each head: mean ± deviation, and min to max."""
    place = 0
    middles, names = [], []
    for layer in measured.layers:
        moments = layer.transformed
        across = place + np.arange(len(layer.heads))
        axes.vlines(across, moments.low, moments.high, color="0.6", lw=0.8)
        axes.errorbar(
            across, moments.mean, moments.deviation, fmt="o", color="0.0", ms=3, capsize=2, lw=1.2
        )
        middles.append(across.mean())
        names.append(str(layer.layer + 1))
        place += len(layer.heads) + 2
    axes.set_xticks(middles, names)
    axes.set_xlabel("layer, its heads side by side\n(mean ± deviation; thin: min to max)")
    axes.set_ylabel("‖f(x)‖")
    axes.set_ylim(bottom=0)


def singular(axes: Axes, measured: Statistics) -> None:
    """Singular values of f with its bias: a line for each head, the darker the earlier its layer.

    Only some layers are named if there are many.
    """
    last = len(measured.layers) - 1
    for number, layer in enumerate(measured.layers):
        look: dict[str, Any] = {"color": str(0.75 * number / max(1, last)), "lw": 0.9}
        look["ls"] = style_of(number).line
        is_named = last < len(STYLES) or number in (0, last)
        for place, values in enumerate(layer.affine.singular):
            label = f"layer {layer.layer + 1}" if is_named and place == 0 else None
            axes.plot(np.arange(1, len(values) + 1), values, label=label, **look)
    axes.set_xlabel("singular values of each head's f, falling")
    axes.set_ylabel("value")
    axes.set_ylim(bottom=0)
    legend(axes)


def some(rows: np.ndarray) -> np.ndarray:
    """So few rows that they can be drawn, at random but always the same."""
    if len(rows) <= POINTS:
        return rows
    return rows[np.random.default_rng(1).choice(len(rows), POINTS, replace=False)]


FIGURES: dict[str, Callable[[Axes, Statistics], None]] = {
    "weights": weights,
    "norms": norms,
    "transformed": transformed,
    "cells": cells,
    "rank-weights": rank_weights,
    "rank-norms": rank_norms,
    "spread": spread,
    "singular": singular,
}


@in_style
def picture(by_kind: ByKind, names: Sequence[str]) -> Figure:
    """Some of FIGURES: a row for each kind of attention, a column for each.

    Of one kind, they come in rows of a few.
    """
    panels = [(kind, name) for kind in by_kind for name in names]
    across = len(names) if len(by_kind) > 1 else min(ACROSS, len(names))
    down = math.ceil(len(panels) / across)
    width, height = PANEL
    figure = Figure(figsize=(width * across, height * down), layout="constrained")
    FigureCanvasAgg(figure)
    all_axes = figure.subplots(down, across, squeeze=False).ravel()
    for axes in all_axes[len(panels) :]:
        axes.set_axis_off()
    for axes, (kind, name) in zip(all_axes, panels, strict=False):  # some may be left over
        FIGURES[name](axes, by_kind[kind])
        shown = axes.get_legend()
        rows = 0 if shown is None else math.ceil(len(shown.get_texts()) / LEGEND_COLUMNS)
        axes.set_title(KINDS[kind].title, fontsize=9, pad=6 + 11 * rows)
    return figure
