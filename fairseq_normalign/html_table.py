"""Results as small HTML tables, which notebooks show by themselves.

What is in a table is told by the class that it is a result of, in ``_repr_html_``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

NOTHING = "–"
MOST = 60  # rows or columns that are shown; a caption tells of the rest
SHADE = "rgba(66, 133, 244, {:.2f})"  # light enough for black letters and for white ones
LEFT = "text-align: left"
UPRIGHT = "writing-mode: vertical-rl; transform: rotate(180deg); text-align: left"


class Cell(NamedTuple):
    """What stands in a table, and how dark it is there, from 0 to 1."""

    text: str
    shade: float = 0.0


def html_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str | Cell]],
    *,
    caption: str = "",
    upright: bool = False,
) -> str:
    """A table whose first column names the rows. All text is escaped.

    Args:
        upright: the names of columns are written upwards, so that columns are narrow.
    """
    style = UPRIGHT if upright else LEFT
    titles = "".join(f'<th style="{style}">{escape(title)}</th>' for title in header)
    lines = [f"<caption>{escape(caption)}</caption>"] if caption else []
    lines.append(f"<thead><tr>{titles}</tr></thead>")
    lines.append("<tbody>")
    lines += map(_row, rows)
    lines.append("</tbody>")
    return "<table>" + "\n".join(lines) + "</table>"


def _row(cells: Sequence[str | Cell]) -> str:
    name, *rest = cells
    text = name if isinstance(name, str) else name.text
    columns = "".join(map(_column, rest))
    return f'<tr><th style="{LEFT}">{escape(text)}</th>{columns}</tr>'


def _column(cell: str | Cell) -> str:
    text, shade = (cell, 0.0) if isinstance(cell, str) else cell
    style = "text-align: right"
    if shade > 0:
        style += f"; background: {SHADE.format(0.7 * min(shade, 1.0))}"
    return f'<td style="{style}">{escape(text)}</td>'


def number_text(value: float | None, form: str = ".1f", scale: float = 1.0) -> str:
    """A number as text, or a dash where there is none."""
    if value is None or math.isnan(value):
        return NOTHING
    return format(scale * value, form)


def percent_text(value: float | None) -> str:
    """A ratio in percent."""
    return number_text(value, ".1f", 100.0)


def shown_of(count: int, things: str) -> str:
    """What a caption says of more rows or columns than are shown; nothing if all are."""
    return "" if count <= MOST else f"the first {MOST} of {count} {things}"
