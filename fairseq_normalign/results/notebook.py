"""Blocks as the HTML that a notebook shows. All text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fairseq_normalign.results.blocks import Block, Curves, Grid, Heading, Table, is_written, walk
from fairseq_normalign.results.tables import as_table, cell_text, is_number_column
from fairseq_normalign.results.text import paragraph

MOST = 60  # rows or columns that are shown
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
    shades = _shades(block) if isinstance(block, Grid) else []
    left_out = [f"the first {MOST} rows of {len(table.rows)}"] if len(table.rows) > MOST else []
    caption = ", ".join(part for part in [table.title, *left_out] if part)
    lines = [f"<caption>{escape(caption)}</caption>"] if caption else []
    names = "".join(f"<th>{escape(name)}</th>" for name in table.columns[:MOST])
    lines.append(f"<thead><tr>{names}</tr></thead><tbody>")
    for number in range(min(MOST, len(table.rows))):
        cells = []
        for place in range(min(MOST, len(table.columns))):
            shade = shades[number][place - 1] if shades and place else 0.0
            cells.append(_cell(table, number, place, shade))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    lines.append("</tbody>")
    return "<table>" + "\n".join(lines) + "</table>"


def _cell(table: Table, row: int, column: int, shade: float) -> str:
    text = escape(cell_text(table, row, column) or table.absent)
    style = "text-align: right" if is_number_column(table, column) else "text-align: left"
    if shade > 0:
        style += f"; background: {SHADE.format(0.7 * shade)}"
    return f'<td style="{style}">{text}</td>'


def _shades(grid: Grid) -> list[list[float]]:
    """How dark each cell is, from 0 to 1."""
    values = [value for row in grid.values for value in row if value is not None]
    low, high = grid.ends or (min(values, default=0.0), max(values, default=0.0))
    shades = []
    for row in grid.values:
        of_row = []
        for value in row:
            share = (value - low) / (high - low) if value is not None and high > low else 0.0
            of_row.append(1 - share if grid.low and value is not None else share)
        shades.append(of_row)
    return shades
