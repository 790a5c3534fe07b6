"""Blocks as text for a terminal, and as tables of CSV, TSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Sequence

from fairseq_normalign.results.blocks import (
    Block,
    Cell,
    Clouds,
    Curves,
    Facts,
    Grid,
    Heading,
    Note,
    Table,
    is_drawn_only,
    is_written,
    walk,
)

SEPARATORS = {"csv": ",", "tsv": "\t"}
NOTES = {"md": "{}", "latex": "% {}"}
COMMENTS = {"csv": "# {}", "tsv": "# {}", "md": "**{}**\n", "latex": "% {}"}


def as_table(block: Table | Grid | Curves | Clouds) -> Table:
    """A table; of a map a row for each of its rows, of curves one for each x, of clouds each point.

    Raises what a damaged block makes Python raise.
    """
    if isinstance(block, Table):
        return block
    rows: list[list[Cell]] = []
    if isinstance(block, Clouds):
        for cloud in block.clouds:
            rows += [[cloud.name, x, y] for x, y in cloud.points]
        return Table(["", block.x_title, block.y_title], rows, block.title)
    if isinstance(block, Curves):
        by_curve = []
        for curve in block.curves:
            by_curve.append({point.x: point.y for point in curve.points})
        xs = dict.fromkeys(x for points in by_curve for x in points)
        rows = [[x, *(points.get(x) for points in by_curve)] for x in xs]
        columns = [block.x_title, *(curve.name for curve in block.curves)]
        return Table(columns, rows, block.title, block.decimals)
    rows = [[name, *values] for name, values in zip(block.rows, block.values, strict=True)]
    return Table(
        [block.row_title, *block.columns],
        rows,
        f"{block.title} in {block.unit}" if block.unit else block.title,
        block.decimals,
        deviations=[[None, *row] for row in block.deviations],
        name=block.name,
        marks=[["", *row] for row in block.marks],
    )


def tables_of(blocks: Sequence[Block]) -> dict[str, Table]:
    """All tables, maps and curves as tables, by name, or by title and what they are about."""
    tables: dict[str, Table] = {}
    about = ""

    def keep(block: Block) -> bool:  # not pictures of what a table has, which have no name
        return not is_drawn_only(block) or bool(getattr(block, "name", ""))

    for block in walk(blocks, keep, all_options=True):
        if isinstance(block, Heading):
            about = block.text
        if isinstance(block, (Table, Grid, Curves)):
            table = as_table(block)
            name = table.name or table.title or "table"
            if name in tables and about:
                name = f"{name}: {about}"
            number, base = 2, name
            while name in tables:
                name, number = f"{base} ({number})", number + 1
            tables[name] = table
    return tables


def cell_texts(table: Table, absent: str = "") -> list[list[str]]:
    """Cells as people read them: ``37.2``, or ``37.2 ±0.8`` of several models, and their marks.

    Args:
        absent: what stands where there is no value.
    """
    decimals = [table.decimals_of(place) for place in range(len(table.columns))]
    rooms = [max(map(len, column)) for column in zip(*table.marks, strict=True)]
    texts = []
    for number, row in enumerate(table.rows):
        of_row = []
        for place, (cell, _) in enumerate(zip(row, table.columns, strict=True)):
            if cell is None or isinstance(cell, str):
                of_row.append(cell or absent)
                continue
            text = f"{cell:{'' if table.plain else ','}.{decimals[place]}f}"
            deviation = table.deviations[number][place] if table.deviations else None
            if deviation is not None:
                text = f"{text} ±{deviation:.{decimals[place]}f}"
            if rooms and rooms[place]:
                text = f"{text} {table.marks[number][place]:<{rooms[place]}}"
            of_row.append(text)
        texts.append(of_row)
    return texts


def sides(table: Table) -> list[str]:
    """Where the cells of each column stand: numbers to the right."""
    of_columns = []
    for place in range(len(table.columns)):
        has_numbers = any(isinstance(row[place], (int, float)) for row in table.rows)
        of_columns.append("right" if has_numbers else "left")
    return of_columns


def _separated(table: Table, delimiter: str) -> str:
    """All digits; deviations have columns of their own."""
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    uncertain = []
    for place in range(len(table.columns)):
        if any(row[place] is not None for row in table.deviations):
            uncertain.append(place)
    writer.writerow([*table.columns, *(f"{table.columns[place]} ±" for place in uncertain)])
    for number, row in enumerate(table.rows):
        writer.writerow([*row, *(table.deviations[number][place] for place in uncertain)])
    return file.getvalue().rstrip("\n")


def as_format(blocks: Sequence[Block], form: str) -> str:
    """Tables as csv, tsv, md or latex, below each other; several have their names above.

    CSV and TSV have all of them, formats for people those that text has, and its notes below.
    """
    from tabulate import tabulate  # late: text needs none

    written = walk(blocks, is_written)
    tables = tables_of(blocks if form in SEPARATORS else written)
    parts = []
    for name, table in tables.items():
        if form in SEPARATORS:
            text = _separated(table, SEPARATORS[form])
        else:
            text = tabulate(
                cell_texts(table),
                list(table.columns),
                tablefmt="pipe" if form == "md" else "latex_booktabs",
                colalign=sides(table) if table.rows else None,  # tabulate 0.9 needs rows
                disable_numparse=True,
            )
        parts.append(f"{COMMENTS[form].format(name)}\n{text}" if len(tables) > 1 else text)
    if form not in SEPARATORS:
        notes = [block.text for block in written if isinstance(block, Note)]
        parts += [NOTES[form].format(text) for text in notes]
    return "\n\n".join(parts)


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
