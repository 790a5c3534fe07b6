"""Blocks as the HTML that a notebook shows. All text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from fairseq_normalign.results.blocks import Block, Curves, Grid, Heading, Table, is_written, walk
from fairseq_normalign.results.tables import as_table, cell_texts, number_columns
from fairseq_normalign.results.text import paragraph

MOST = 60  # rows or columns that are shown
WIDE = 12  # columns; the names of more stand upright
UPRIGHT = "writing-mode: vertical-rl; transform: rotate(180deg); text-align: left"
SHADE = "rgba(66, 133, 244, {:.2f})"  # light enough for black letters and for white ones


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
    shades = _shades(block) if isinstance(block, Grid) else None
    caption = [table.title] if table.title else []
    for name, items in (("rows", table.rows), ("columns", table.columns)):
        if len(items) > MOST:
            caption.append(f"the first {MOST} {name} of {len(items)}")
    heading = f'<th style="{UPRIGHT}">' if len(table.columns) > WIDE else "<th>"
    names = "".join(f"{heading}{escape(name)}</th>" for name in table.columns[:MOST])
    lines = [f"<caption>{escape(', '.join(caption))}</caption>"] if caption else []
    lines.append(f"<thead><tr>{names}</tr></thead><tbody>")
    sides = ["right" if is_number else "left" for is_number in number_columns(table)]
    for number, texts in enumerate(cell_texts(table, table.absent)[:MOST]):
        cells = []
        for place, text in enumerate(texts[:MOST]):
            style = f"text-align: {sides[place]}"
            if shades is not None and place and shades[number, place - 1] > 0:
                style += f"; background: {SHADE.format(0.7 * shades[number, place - 1])}"
            cells.append(f'<td style="{style}">{escape(text)}</td>')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    lines.append("</tbody>")
    return "<table>" + "\n".join(lines) + "</table>"


def _shades(grid: Grid) -> np.ndarray:
    """How dark each cell is, from 0 to 1; 0 where there is no value."""
    values = np.array(grid.values, dtype=float)
    if not np.isfinite(values).any():
        return np.zeros(values.shape)
    low, high = grid.ends or (np.nanmin(values), np.nanmax(values))
    shares = (values - low) / (high - low) if high > low else 0 * values
    return np.nan_to_num(1 - shares if grid.low else shares)
