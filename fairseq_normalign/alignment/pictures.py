"""Soft alignments as pictures.

Black frames on blue that is never dark: the pictures can be read in grey, too.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from matplotlib.patches import Rectangle

from fairseq_normalign.results.figure import HEAT, in_style
from fairseq_normalign.results.text import display_width
from fairseq_normalign.text.links import Gold, Link

INCH_PER_CELL = (0.14, 0.32)  # of a long sentence, of a short one
PANEL_INCHES = 5.6  # what a panel should not exceed, unless cells would become too small
LETTER = 0.0086  # inches of a letter of one point
FRAME = 0.92  # width of a frame in a cell: frames of neighbours stay apart
IN_A_ROW = 3  # panels; more are wrapped to a square
REFERENCE = "gold:\nsure filled, possible hatched"
USUAL_FONT = "DejaVu Sans"  # matplotlib's own: Latin, Greek, Cyrillic, Arabic, Hebrew and more
LAST_RESORT = "Last Resort"  # has boxes for all letters


class Panel(NamedTuple):
    """A soft alignment (T, S), and the links to be framed in it, if not those of the gold."""

    title: str
    soft: np.ndarray | None  # None: the gold by itself
    links: Collection[Link] | None = None


Texts = tuple[Sequence[str], Sequence[str]]  # the source and target words of a pair


@in_style
def soft_alignments(
    panels: Sequence[Sequence[Panel]],
    texts: Texts,
    gold: Gold | None = None,
    *,
    titles: Sequence[str] = ("source", "target"),
    title: str = "",
) -> Figure:
    """Heat maps in rows and columns (Kobayashi et al., 2020, Fig. 8 and 13–17).

    A panel's own links are framed, and the gold then has a panel of its own, the last one: sure
    links are filled, possible ones hatched. In panels without links of their own the gold is
    framed, solid where it is sure, dotted where it is possible.

    Args:
        panels: the rows; one long row is wrapped. Every row of a heat map is scaled to its maximum.
        titles: what the axes are called.
        title: stands above all panels.
    """
    rows = [list(row) for row in panels]
    if gold is not None and rows[0][0].links is not None:
        rows[-1].append(Panel(REFERENCE, None))
    if len(rows) == 1 and len(rows[0]) > IN_A_ROW:
        columns = math.ceil(math.sqrt(len(rows[0])))
        rows = [rows[0][first : first + columns] for first in range(0, len(rows[0]), columns)]
    columns = max(map(len, rows))
    source, target = texts
    smallest, largest = INCH_PER_CELL
    cell = np.clip(PANEL_INCHES / max(len(source), len(target)), smallest, largest)
    points = min(10.0, 0.8 * 72 * cell)  # as high as a cell allows, and no larger than usual text
    beside, below = (LETTER * points * max(map(display_width, side)) for side in (target, source))
    width = columns * (cell * len(source) + 0.3) + beside + 1.4
    height = len(rows) * (cell * len(target) + 0.5) + below + 1.2
    figure = Figure(figsize=(width, height), layout="compressed")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(rows), columns, squeeze=False)
    look = {"fontsize": points, "fontfamily": families_for("".join([*source, *target]))}
    for (row, column), axes in np.ndenumerate(grid):
        if column >= len(rows[row]):
            axes.set_axis_off()
            continue
        is_lowest = row + 1 == len(rows) or column >= len(rows[row + 1])
        _show_words(axes, texts, look, below=is_lowest, left=column == 0)
        axes.set(xlabel=titles[0] if is_lowest else "", ylabel=titles[1] if column == 0 else "")
        draw_panel(axes, rows[row][column], gold)
    (image,) = grid[0, 0].images
    scale = figure.colorbar(image, ax=grid.ravel().tolist(), shrink=0.8, aspect=30, pad=0.02)
    scale.set_label("share of the row's maximum", fontsize=8)
    scale.ax.tick_params(labelsize=8)
    figure.suptitle(title, fontsize=11)
    return figure


def _show_words(axes: Axes, texts: Texts, look: dict[str, Any], *, below: bool, left: bool) -> None:
    """Words at the cells, and lines between them; a ``$`` is a word like others.

    Args:
        below, left: whether no other panel has words there.
    """
    source, target = texts
    axes.set_xticks(range(len(source)), source, rotation=90, parse_math=False, **look)
    axes.set_yticks(range(len(target)), target, parse_math=False, **look)
    axes.set_xticks(np.arange(0.5, len(source) - 1), minor=True)
    axes.set_yticks(np.arange(0.5, len(target) - 1), minor=True)
    axes.grid(which="minor", color="0.85", linewidth=0.5)
    axes.tick_params(which="both", length=0)
    axes.tick_params(which="major", labelbottom=below, labelleft=left)
    axes.set(xlim=(-0.5, len(source) - 0.5), ylim=(len(target) - 0.5, -0.5), aspect="equal")


def draw_panel(axes: Axes, panel: Panel, gold: Gold | None) -> None:
    """A heat map with its own links framed, or else those of the gold; or the gold by itself."""
    axes.set_title(panel.title, fontsize=10)
    sure, possible = gold or (frozenset(), frozenset())
    if panel.soft is None:
        filled = {"facecolor": HEAT(1.0), "lw": 1.0}
        hatched = {"facecolor": "white", "hatch": "/////", "lw": 0.8}
        for link in sorted(possible):
            _frame(axes, link, **(filled if link in sure else hatched))
        return
    row_maxima = np.maximum(panel.soft.max(axis=1, keepdims=True), 1e-12)
    axes.imshow(panel.soft / row_maxima, cmap=HEAT, vmin=0, vmax=1)
    for link in sorted(possible if panel.links is None else panel.links):
        is_dotted = panel.links is None and link not in sure
        _frame(axes, link, fill=False, lw=1.5, ls=":" if is_dotted else "-")


def _frame(axes: Axes, link: Link, **look: Any) -> None:
    """A square in the cell of a link."""
    source, target = link
    corner = source - FRAME / 2, target - FRAME / 2
    axes.add_patch(Rectangle(corner, FRAME, FRAME, edgecolor="black", **look))


def families_for(text: str) -> list[str]:
    """Families of fonts that have all letters of a text together, the usual one first.

    Letters that no font of this machine has cause a warning.
    """
    missing = {letter for letter in text if not letter.isspace()}
    families = []
    for family, path in _installed():
        had = missing & _letters(path)
        if had or family == USUAL_FONT:
            families.append(family)
        missing -= had
        if not missing:
            return families
    letters = " ".join(sorted(missing))
    warnings.warn(
        f"no installed font has {letters[:9]}: the picture shows boxes; install one, such as Noto",
        stacklevel=2,
    )
    return families


def _installed() -> Iterator[tuple[str, str]]:
    """Family and file of one upright font of each family: the usual, those without serifs …"""
    files: dict[str, str] = {}
    for font in font_manager.fontManager.ttflist:
        is_upright = font.style == "normal" and font.weight in (400, "normal", "regular")
        if is_upright and not font.name.startswith(LAST_RESORT):
            files.setdefault(font.name, font.fname)
    yield from sorted(
        files.items(), key=lambda file: (file[0] != USUAL_FONT, "Sans" not in file[0], file)
    )


def _letters(path: str) -> set[str]:
    """The letters that a font has; none if its file is damaged, or gone since fonts were listed."""
    try:
        return set(map(chr, FT2Font(path).get_charmap()))
    except (OSError, RuntimeError):
        return set()
