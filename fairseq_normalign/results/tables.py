"""Blocks as tables, and tables as CSV, TSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence

from tabulate import tabulate

from fairseq_normalign.results.blocks import (
    Block,
    Cell,
    Curves,
    Grid,
    Heading,
    Table,
    is_drawn_only,
    is_written,
    walk,
)


def as_table(block: Table | Grid | Curves) -> Table:
    """A table; of a map a row for each of its rows, of curves a row for each x."""
    if isinstance(block, Table):
        return block
    return _of_grid(block) if isinstance(block, Grid) else _of_curves(block)


def _of_grid(grid: Grid) -> Table:
    rows: list[list[Cell]] = []
    for name, values in zip(grid.rows, grid.values, strict=True):
        rows.append([name, *values])
    title = f"{grid.title} in {grid.unit}" if grid.unit else grid.title
    return Table(
        [grid.row_title, *grid.columns],
        rows,
        title,
        grid.decimals,
        deviations=[[None, *row] for row in grid.deviations],
        name=grid.name,
        marks=[["", *row] for row in grid.marks],
    )


def _of_curves(block: Curves) -> Table:
    xs: dict[float | str, None] = {}
    by_curve = []
    for curve in block.curves:
        by_curve.append({point.x: point.y for point in curve.points})
        xs.update(dict.fromkeys(point.x for point in curve.points))
    rows: list[list[Cell]] = [[x, *(points.get(x) for points in by_curve)] for x in xs]
    columns = [block.x_title, *(curve.name for curve in block.curves)]
    return Table(columns, rows, block.title, block.decimals)


def tables_of(blocks: Sequence[Block]) -> dict[str, Table]:
    """All tables, maps and curves as tables, by name, or by title and what they are about."""
    tables: dict[str, Table] = {}
    about = ""
    for block in walk(blocks, _is_tabular, all_options=True):
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


def _is_tabular(block: Block) -> bool:
    """Whether a program may want it: all but pictures of what a table has, which have no name."""
    return not is_drawn_only(block) or bool(getattr(block, "name", ""))


def cell_text(table: Table, row: int, column: int) -> str:
    """A cell as people read it: ``37.2``, or ``37.2 ±0.8`` of several models, and its mark."""
    cell = table.rows[row][column]
    if cell is None or isinstance(cell, str):
        return cell or ""
    decimals = table.decimals_of(column)
    text = f"{cell:.{decimals}f}" if table.plain else f"{cell:,.{decimals}f}"
    deviation = table.deviations[row][column] if table.deviations else None
    if deviation is not None:
        text = f"{text} ±{deviation:.{decimals}f}"
    room = max((len(marks[column]) for marks in table.marks), default=0)
    return f"{text} {table.marks[row][column]:<{room}}" if room else text


def is_number_column(table: Table, column: int) -> bool:
    return any(isinstance(row[column], (int, float)) for row in table.rows)


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
        beside = [table.deviations[number][place] for place in uncertain]
        writer.writerow(["" if cell is None else cell for cell in [*row, *beside]])
    return file.getvalue().rstrip("\n")


def _tabulated(table: Table, form: str) -> str:
    rows = []
    for number, row in enumerate(table.rows):
        rows.append([cell_text(table, number, place) for place in range(len(row))])
    sides = ["right" if is_number_column(table, n) else "left" for n in range(len(table.columns))]
    return tabulate(
        rows, list(table.columns), tablefmt=form, colalign=sides or None, disable_numparse=True
    )


FORMATS: Mapping[str, Callable[[Table], str]] = {
    "csv": lambda table: _separated(table, ","),
    "tsv": lambda table: _separated(table, "\t"),
    "md": lambda table: _tabulated(table, "pipe"),
    "latex": lambda table: _tabulated(table, "latex_booktabs"),
}
COMMENTS = {"csv": "# {}", "tsv": "# {}", "md": "**{}**\n", "latex": "% {}"}


def as_format(blocks: Sequence[Block], form: str) -> str:
    """Tables in one of FORMATS, below each other; several have their names above.

    CSV and TSV have all of them, formats for people those that text has.
    """
    if form not in ("csv", "tsv"):
        blocks = walk(blocks, is_written)
    tables = tables_of(blocks)
    parts = []
    for name, table in tables.items():
        text = FORMATS[form](table)
        parts.append(f"{COMMENTS[form].format(name)}\n{text}" if len(tables) > 1 else text)
    return "\n\n".join(parts)
