"""Soft alignments as pictures.

Black frames on blue that is never dark: the pictures can be read in grey, too.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
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
POINTS_PER_INCH = 72
LETTER = 0.62  # width of a letter, in heights
FRAME = 0.92  # width of a frame in a cell: frames of neighbours stay apart
USUAL_FONT = "DejaVu Sans"  # matplotlib's own: Latin, Greek, Cyrillic, Arabic, Hebrew and more
LAST_RESORT = "Last Resort"  # has boxes for all letters
SHOWN = 5  # letters that no font has


class Panel(NamedTuple):
    """A soft alignment (T, S), and the links to be framed in it, if not those of the gold."""

    title: str
    soft: np.ndarray
    links: Collection[Link] | None = None


class Sentences(NamedTuple):
    """The words of a pair, and what the axes are called."""

    source: Sequence[str]
    target: Sequence[str]
    source_title: str = "source"
    target_title: str = "target"

    @property
    def inch_per_cell(self) -> float:
        smallest, largest = INCH_PER_CELL
        wanted = PANEL_INCHES / max(len(self.source), len(self.target))
        return min(largest, max(smallest, wanted))

    @property
    def points(self) -> float:
        """The size of the words: as high as a cell allows, and no larger than usual text."""
        return min(10.0, 0.8 * POINTS_PER_INCH * self.inch_per_cell)

    def margins(self) -> tuple[float, float]:
        """Inches beside and below a panel that words and axis titles take."""
        inches = self.points * LETTER / POINTS_PER_INCH
        beside = inches * max(map(display_width, self.target)) + 0.4
        below = inches * max(map(display_width, self.source)) + 0.4
        return beside, below


@in_style
def soft_alignments(
    panels: Sequence[Sequence[Panel]],
    sentences: Sentences,
    gold: Gold | None = None,
    *,
    title: str = "",
) -> Figure:
    """Heat maps in rows and columns (Kobayashi et al., 2020, Fig. 8 and 13–17).

    A panel's own links are framed, and the gold then has a panel of its own, the last one: sure
    links are filled, possible ones hatched. In panels without links of their own the gold is
    framed, solid where it is sure, dotted where it is possible.

    Args:
        panels: the rows; one long row is wrapped. Every row of a heat map is scaled to its maximum.
        title: stands above all panels.
    """
    flat = list(chain(*panels))
    has_links = any(panel.links is not None for panel in flat)
    reference = gold if has_links else None
    places = arranged([len(row) for row in panels], reference=reference is not None)
    rows = 1 + max(row for row, _ in places)
    columns = 1 + max(column for _, column in places)
    figure = Figure(figsize=_size(rows, columns, sentences), layout="compressed")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False)
    families = families_for("".join([*sentences.source, *sentences.target]))
    for place, (row, column) in enumerate(places):
        axes = grid[row, column]
        below = (row + 1, column) not in places
        _name_axes(axes, sentences, families, below=below, left=column == 0)
        if place == len(flat) and reference is not None:
            draw_reference(axes, reference)
        else:
            draw_panel(axes, flat[place], gold)
    for empty, axes in np.ndenumerate(grid):
        if empty not in places:
            axes.set_axis_off()
    (image,) = grid[0, 0].images
    scale = figure.colorbar(image, ax=grid.ravel().tolist(), shrink=0.8, aspect=30, pad=0.02)
    scale.set_label("share of the row's maximum", fontsize=8)
    scale.ax.tick_params(labelsize=8)
    figure.suptitle(title, fontsize=11)
    return figure


def arranged(row_lengths: Sequence[int], *, reference: bool) -> list[tuple[int, int]]:
    """Row and column of each panel, the reference last.

    Several rows stay as they are, with the reference to the right of the last one. A single row of
    more than three panels becomes a square, as far as it goes.
    """
    if len(row_lengths) == 1:
        count = row_lengths[0] + reference
        columns = count if count <= 3 else math.ceil(math.sqrt(count))
        return [divmod(number, columns) for number in range(count)]
    places = []
    for row, length in enumerate(row_lengths):
        places += [(row, column) for column in range(length)]
    if reference:
        places.append((len(row_lengths) - 1, row_lengths[-1]))
    return places


def _size(rows: int, columns: int, sentences: Sentences) -> tuple[float, float]:
    """Inches of a figure."""
    cell = sentences.inch_per_cell
    beside, below = sentences.margins()
    width = columns * (cell * len(sentences.source) + 0.3) + beside + 1.0
    height = rows * (cell * len(sentences.target) + 0.5) + below + 0.8
    return width, height


def _name_axes(
    axes: Axes, sentences: Sentences, families: Sequence[str], *, below: bool, left: bool
) -> None:
    """Words at the cells, and lines between them; a ``$`` is a word like others.

    Args:
        below, left: whether no other panel has words and titles there.
    """
    source, target, source_title, target_title = sentences
    look: dict[str, Any] = {
        "fontsize": sentences.points,
        "fontfamily": list(families),
        "parse_math": False,
    }
    axes.set_xticks(range(len(source)), source, rotation=90, **look)
    axes.set_yticks(range(len(target)), target, **look)
    axes.set_xticks(np.arange(0.5, len(source) - 1), minor=True)
    axes.set_yticks(np.arange(0.5, len(target) - 1), minor=True)
    axes.grid(which="minor", color="0.85", linewidth=0.5)
    axes.tick_params(which="both", length=0)
    axes.tick_params(which="major", labelbottom=below, labelleft=left)
    axes.set(xlabel=source_title if below else "", ylabel=target_title if left else "")
    axes.set(xlim=(-0.5, len(source) - 0.5), ylim=(len(target) - 0.5, -0.5), aspect="equal")


def draw_panel(axes: Axes, panel: Panel, gold: Gold | None) -> None:
    """A heat map with its own links framed, or else those of the gold."""
    row_maxima = np.maximum(panel.soft.max(axis=1, keepdims=True), 1e-12)
    axes.imshow(panel.soft / row_maxima, cmap=HEAT, vmin=0, vmax=1)
    axes.set_title(panel.title, fontsize=10)
    if panel.links is not None:
        for link in sorted(panel.links):
            axes.add_patch(_cell(link, fill=False, lw=1.5))
    elif gold is not None:
        for link in sorted(gold.possible):
            style = "-" if link in gold.sure else ":"
            axes.add_patch(_cell(link, fill=False, lw=1.5, ls=style))


def draw_reference(axes: Axes, gold: Gold) -> None:
    """The gold links alone: sure ones filled, possible ones hatched."""
    axes.set_title("reference:\nsure filled, possible hatched", fontsize=10)
    for link in sorted(gold.possible):
        if link in gold.sure:
            axes.add_patch(_cell(link, facecolor=HEAT(1.0), lw=1.0))
        else:
            axes.add_patch(_cell(link, facecolor="white", hatch="/////", lw=0.8))


def _cell(link: Link, **look: Any) -> Rectangle:
    """A square in the cell of a link."""
    source, target = link
    corner = source - FRAME / 2, target - FRAME / 2
    return Rectangle(corner, FRAME, FRAME, edgecolor="black", **look)


def families_for(text: str) -> list[str]:
    """Families of fonts that have all letters of a text together, the usual one first.

    Letters that no font of this machine has cause a warning.
    """
    missing = {letter for letter in text if not letter.isspace()}
    families = []
    for family, path in _installed():
        if not missing:
            break
        had = missing & _letters(path)
        if had or family == USUAL_FONT:
            families.append(family)
            missing -= had
    if missing:
        letters = " ".join(sorted(missing)[:SHOWN])
        warnings.warn(
            f"no font of this machine has {letters}{' …' if len(missing) > SHOWN else ''}: the "
            "picture shows boxes instead; expected an installed font that has, as one of Noto's",
            stacklevel=2,
        )
    return families or [USUAL_FONT]


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
