"""Blocks as text for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from fairseq_normalign.results.blocks import (
    Block,
    Clouds,
    Curves,
    Facts,
    Grid,
    Heading,
    Note,
    Table,
    is_written,
    walk,
)
from fairseq_normalign.results.tables import as_table, cell_texts, sides

GAP = "  "  # between columns


def as_text(blocks: Sequence[Block]) -> str:
    """A paragraph for each block; what only a picture shows is left out."""
    paragraphs = [paragraph(block) for block in walk(blocks, is_written)]
    return "\n\n".join(filter(None, paragraphs))


def paragraph(block: Block) -> str:
    """A block as lines; names stand to the left and numbers to the right."""
    if isinstance(block, Note):
        return f"Warning: {block.text}" if block.urgent else block.text
    if isinstance(block, Heading):
        return f"== {block.text}"
    if isinstance(block, Facts):
        title = block.title
        lines = [f"{name}: {value}" for name, value in block.items]
    else:
        assert isinstance(block, (Table, Grid, Curves, Clouds))
        table = as_table(block)
        title = table.title
        lines = columns([list(table.columns), *cell_texts(table, table.absent)], sides(table))
    return "\n".join([title, *lines] if title else lines)


def columns(rows: Sequence[Sequence[str]], of_columns: Sequence[str]) -> list[str]:
    """A line for each row, as wide as the widest cells need.

    Args:
        rows: cells, as many in each row.
        of_columns: where cells stand, ``left`` or ``right``.
    """
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for cells in rows:
        padded = []
        for cell, width, side in zip(cells, widths, of_columns, strict=True):
            blanks = " " * (width - display_width(cell))
            padded.append(cell + blanks if side == "left" else blanks + cell)
        lines.append(GAP.join(padded).rstrip())
    return lines


def display_width(text: str) -> int:
    """How many places of a terminal a text takes.

    Chinese, Japanese and Korean signs take two, marks that go with the sign before them none.
    """
    width = len(text)
    for character in "" if text.isascii() else text:
        if unicodedata.category(character) in ("Mn", "Me", "Cf"):
            width -= 1
        elif unicodedata.east_asian_width(character) in "WF":
            width += 1
    return width
