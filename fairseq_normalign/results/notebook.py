"""Blocks as the HTML that a notebook shows. All text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from tabulate import tabulate

from fairseq_normalign.results.blocks import Block, Curves, Grid, Heading, Table, is_written, walk
from fairseq_normalign.results.text import as_table, cell_texts, paragraph, sides

MOST = 60  # rows or columns that are shown
WIDE = 12  # columns; the names of more stand upright
UPRIGHT = '<div style="writing-mode: vertical-rl; transform: rotate(180deg)">{}</div>'
# Light enough for black letters and for white ones.
SHADED = '<div style="background: rgba(66, 133, 244, {:.2f})">{}</div>'


def as_html(blocks: Sequence[Block], signature: str = "") -> str:
    """A table for each table or map, a paragraph for all else, and the signature at the end."""
    parts = []
    for block in walk(blocks, is_written):
        if isinstance(block, (Table, Grid, Curves)):
            parts.append(html_table(block))
        elif isinstance(block, Heading):
            parts.append(f"<h4>{escape(block.text)}</h4>")
        else:
            parts.append(f"<p>{escape(paragraph(block))}</p>")
    if signature:
        parts.append(f"<p><small>{escape(signature)}</small></p>")
    return "\n".join(parts)


def html_table(block: Table | Grid | Curves) -> str:
    """A table; the cells of a map are the darker, the better they are, from its worst to best."""
    table = as_table(block)
    caption = [table.title] if table.title else []
    for name, items in (("rows", table.rows), ("columns", table.columns)):
        if len(items) > MOST:
            caption.append(f"the first {MOST} {name} of {len(items)}")
    rows = [list(map(escape, texts[:MOST])) for texts in cell_texts(table, table.absent)[:MOST]]
    if isinstance(block, Grid):
        for (row, column), shade in np.ndenumerate(_shades(block)[:MOST, : MOST - 1]):
            if shade > 0:
                place = column + 1  # behind the name of the row
                rows[row][place] = SHADED.format(0.7 * shade, rows[row][place])
    names = list(map(escape, table.columns[:MOST]))
    if len(table.columns) > WIDE:
        names = [UPRIGHT.format(name) for name in names]
    lines = tabulate(
        rows,
        names,
        tablefmt="unsafehtml",
        colalign=sides(table)[:MOST] if rows else None,
        disable_numparse=True,
    )
    if not caption:
        return str(lines)
    return str(lines).replace(
        "<table>", f"<table>\n<caption>{escape(', '.join(caption))}</caption>", 1
    )


def _shades(grid: Grid) -> np.ndarray:
    """How dark each cell is, from 0 to 1; 0 where there is no value."""
    values = np.array(grid.values, dtype=float)
    if not np.isfinite(values).any():
        return np.zeros(values.shape)
    low, high = grid.ends or (np.nanmin(values), np.nanmax(values))
    shares = (values - low) / (high - low) if high > low else 0 * values
    return np.nan_to_num(1 - shares if grid.low else shares)
