"""Rows of cells as lines of text with columns below each other."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence

GAP = "  "


def columns(rows: Sequence[Sequence[str]], *, left: Collection[int] = (0,)) -> list[str]:
    """A line for each row, as wide as the widest cells need.

    Args:
        rows: cells, as many in each row.
        left: the columns that stand to the left, from 0; all others stand to the right.
    """
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for cells in rows:
        padded = []
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True)):
            blanks = " " * (width - display_width(cell))
            padded.append(cell + blanks if place in left else blanks + cell)
        lines.append(GAP.join(padded).rstrip())
    return lines


def display_width(text: str) -> int:
    """How many places of a terminal a text takes.

    Chinese, Japanese and Korean signs take two, marks that go with the sign before them none.
    """
    return len(text) if text.isascii() else sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
