"""What a section of the page is made of: notes, facts, tables, curves, heat maps, choices.

Every block is plain data; the page's script draws it. Text is text everywhere: the script never
takes any for HTML.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

Cell = str | float | None
MOST_PLACES = 1000  # layers of a model, or heads of a layer


@dataclass(frozen=True)
class Note:
    """A paragraph."""

    type: ClassVar[str] = "note"
    text: str
    urgent: bool = False  # numbers may be wrong


@dataclass(frozen=True)
class Heading:
    """What the blocks after it are of."""

    type: ClassVar[str] = "heading"
    text: str
    note: str = ""


@dataclass(frozen=True)
class Facts:
    """Names and values, one a line."""

    type: ClassVar[str] = "facts"
    items: Sequence[tuple[str, str]]
    title: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells; numbers are shown with so many decimals, and columns can be sorted by."""

    type: ClassVar[str] = "table"
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    decimals: int = 2

    def __post_init__(self) -> None:
        for row in self.rows:
            _check_length(row, self.columns)
            for cell in row:
                if not (cell is None or isinstance(cell, str)):
                    _check_number(cell)


@dataclass(frozen=True)
class Point:
    """A point of a curve, and the interval that it lies in."""

    x: float | str
    y: float
    low: float | None = None
    high: float | None = None
    note: str = ""
    marked: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.x, str):
            _check_number(self.x)
        for value in (self.y, self.low or 0, self.high or 0):
            _check_number(value)


@dataclass(frozen=True)
class Curve:
    """Points that a line goes through; curves that belong together may have one colour."""

    name: str
    points: Sequence[Point]
    dashed: bool = False
    colour: int | None = None  # its place among the curves unless it is given


@dataclass(frozen=True)
class Curves:
    """Curves over numbers, or over names if the first x is one."""

    type: ClassVar[str] = "curves"
    title: str
    x_title: str
    y_title: str
    curves: Sequence[Curve]
    decimals: int = 2
    zero: bool = False  # the axis of y begins at 0
    mark: str = ""  # what a marked point means
    dashes: str = ""  # what a dashed line means
    colours: Sequence[str] = ()  # what colours mean, if they are not those of single curves
    about: str = ""  # what a reader may not know

    def __post_init__(self) -> None:
        kinds: set[bool] = set()
        for curve in self.curves:
            kinds.update(isinstance(point.x, str) for point in curve.points)
        if len(kinds) > 1:
            raise TypeError(f"{self.title}: expected numbers on its axis, or names, not both")


@dataclass(frozen=True)
class Grid:
    """A heat map: a number in each cell, with what else is known of it."""

    type: ClassVar[str] = "grid"
    title: str
    row_title: str
    column_title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    unit: str = ""
    decimals: int = 3
    marks: Sequence[Sequence[str]] = ()  # a letter or two in each cell
    notes: Sequence[Sequence[str]] = ()  # more to be told of each cell
    numbers: bool = False  # printed in the cells
    low: bool = False  # the lower, the better: low values are dark
    ends: tuple[float, float] | None = None  # of the colours, if not those of its own values
    absent: str = "no value"  # what it means that a cell has none
    about: str = ""  # what a reader may not know

    def __post_init__(self) -> None:
        _check_length(self.values, self.rows)
        for row in self.values:
            _check_length(row, self.columns)
            for value in row:
                _check_number(value or 0)


@dataclass(frozen=True)
class Row:
    """Blocks side by side, as far as there is room."""

    type: ClassVar[str] = "row"
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Option:
    name: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Choice:
    """One of several groups of blocks, to be chosen by name."""

    type: ClassVar[str] = "choice"
    label: str
    options: Sequence[Option]
    opening: int = 0

    def __post_init__(self) -> None:
        if not self.options:
            raise ValueError(f"no {self.label} to choose from")


Block = Note | Heading | Facts | Table | Curves | Grid | Row | Choice


@dataclass(frozen=True)
class Section:
    id: str
    title: str
    blocks: Sequence[Block]
    about: str = ""  # what a reader may not know


def _check_number(value: object) -> None:
    """Refuses what is no number: files that were changed by hand may have anything."""
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(f"expected a number, not {str(value)[:40]!r}")


def _check_length(values: Sequence, names: Sequence) -> None:
    if len(values) != len(names):
        raise ValueError(f"expected {len(names)} values, not {len(values)}")


def as_json(value: Any) -> Any:
    """A block, or what it is made of, as JSON takes it; a block says its type."""
    if hasattr(value, "__dataclass_fields__"):
        contents = {own.name: as_json(getattr(value, own.name)) for own in fields(value)}
        return {"type": value.type, **contents} if hasattr(value, "type") else contents
    if isinstance(value, Mapping):
        return {str(name): as_json(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    return value


def chosen_from(
    label: str, groups: Mapping[str, Sequence[Block]], opening: str = ""
) -> list[Block]:
    """A choice between several groups; a single one stands by itself."""
    if len(groups) == 1:
        return list(next(iter(groups.values())))
    options = [Option(name, blocks) for name, blocks in groups.items()]
    names = list(groups)
    return [Choice(label, options, names.index(opening) if opening in names else 0)]


def without_empty(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], title: str, decimals: int = 2
) -> Table:
    """A table of those columns that have something in some row."""
    kept = []
    for place in range(len(columns)):
        if not rows or any(row[place] not in (None, "") for row in rows):
            kept.append(place)
    names = [columns[place] for place in kept]
    return Table(names, [[row[place] for place in kept] for row in rows], title, decimals)


def on_one_scale(grids: Sequence[Grid]) -> list[Block]:
    """Maps of the same measure, which have the same colour for the same value."""
    values = [value for grid in grids for row in grid.values for value in row if value is not None]
    if not values:
        return list(grids)
    ends = min(values), max(values)
    return [replace(grid, ends=ends) for grid in grids]


def up_to(last: int) -> range:
    """Places from 0 to the last, of layers or heads; a name that was made up may have billions."""
    if last >= MOST_PLACES:
        raise ValueError(f"number {last + 1}; expected at most {MOST_PLACES}")
    return range(last + 1)


def facts_of(signature: Mapping[str, object], title: str = "") -> Facts:
    """A signature, a line for each choice."""
    return Facts([(str(name), str(value)) for name, value in signature.items()], title)
