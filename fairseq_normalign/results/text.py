"""Blocks as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairseq_normalign.results.blocks import (
    Block,
    Curves,
    Facts,
    Grid,
    Heading,
    Note,
    Table,
    is_written,
    walk,
)
from fairseq_normalign.results.columns import columns
from fairseq_normalign.results.tables import as_table, cell_text, is_number_column


def as_text(blocks: Sequence[Block]) -> str:
    """A paragraph for each block; what only a picture shows is left out."""
    paragraphs = [paragraph(block) for block in walk(blocks, is_written)]
    return "\n\n".join(text for text in paragraphs if text)


def paragraph(block: Block) -> str:
    if isinstance(block, Note):
        return f"Warning: {block.text}" if block.urgent else block.text
    if isinstance(block, Heading):
        return f"== {block.text}"
    if isinstance(block, Facts):
        lines = [f"{name}: {value}" for name, value in block.items]
        return "\n".join(_titled(block.title, lines))
    if isinstance(block, (Table, Grid, Curves)):
        table = as_table(block)
        return "\n".join(_titled(table.title, table_lines(table)))
    raise TypeError(f"no text for {type(block).__name__}")


def _titled(title: str, lines: Iterable[str]) -> list[str]:
    return [title, *lines] if title else list(lines)


def table_lines(table: Table) -> list[str]:
    """A table with columns below each other, names to the left and numbers to the right."""
    rows = [list(table.columns)]
    for number, row in enumerate(table.rows):
        rows.append([cell_text(table, number, place) or table.absent for place in range(len(row))])
    left = [place for place in range(len(table.columns)) if not is_number_column(table, place)]
    return columns(rows, left=left)
