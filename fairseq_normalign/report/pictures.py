"""Soft alignments as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fairseq_normalign.alignment.links import Gold
from fairseq_normalign.files import whole_file

INCH_PER_WORD = 0.32
FORMATS = (".png", ".pdf", ".svg")


def soft_alignments(
    panels: Sequence[tuple[str, np.ndarray]],
    source: Sequence[str],
    target: Sequence[str],
    gold: Gold | None = None,
) -> Figure:
    """Heat maps side by side, gold framed (Kobayashi et al., 2020, Fig. 8).

    The frame of a sure link is solid, that of a possible one dotted.

    Args:
        panels: title and soft alignment (T, S) of each; every row is scaled to its own maximum.
    """
    width = INCH_PER_WORD * len(source) + 1.6
    height = INCH_PER_WORD * len(target) + 1.8
    figure = Figure(figsize=(width * len(panels), height), layout="constrained")
    FigureCanvasAgg(figure)
    all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, soft) in zip(all_axes, panels, strict=True):
        row_maxima = np.maximum(soft.max(axis=1, keepdims=True), 1e-12)
        axes.imshow(soft / row_maxima, cmap="Blues", vmin=0, vmax=1)
        axes.set_title(title)
        axes.set_xticks(range(len(source)), source, rotation=90)
        axes.set_yticks(range(len(target)), target)
        if gold is not None:
            frame_links(axes, gold)
    return figure


def frame_links(axes: Axes, gold: Gold) -> None:
    """Draws a frame around the cell of each link: solid if it is sure, dotted if it is possible."""
    look: dict[str, Any] = {"fill": False, "edgecolor": "tab:red", "lw": 1.5, "clip_on": False}
    for link in sorted(gold.possible):
        source, target = link
        style = "-" if link in gold.sure else ":"
        axes.add_patch(Rectangle((source - 0.5, target - 0.5), 1, 1, ls=style, **look))


def save(figure: Figure, path: str | Path) -> None:
    """Writes a picture in the format that its name asks for; in PDF and SVG, text stays text."""
    with (
        mpl.rc_context({"pdf.fonttype": 42, "svg.fonttype": "none"}),
        whole_file(path, binary=True) as file,
    ):
        figure.savefig(file, dpi=150, bbox_inches="tight", format=Path(path).suffix[1:])
