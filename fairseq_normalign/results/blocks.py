"""What a result is made of: notes, facts, tables, maps, curves, points, choices.

Blocks are plain data that every renderer understands: text, JSON, CSV, LaTeX, notebooks, figures
and the page. No renderer knows what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

Cell = str | float | None
Rows = list[list[Cell]]  # of a table that is being made


@dataclass(frozen=True)
class Note:
    """A paragraph."""

    text: str
    urgent: bool = False  # numbers may be wrong


@dataclass(frozen=True)
class Heading:
    """What the blocks after it are about."""

    text: str


@dataclass(frozen=True)
class Facts:
    """Names and values, one a line."""

    items: Sequence[tuple[str, str]]
    title: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells.

    Args:
        decimals: of the numbers, for all columns or for each of them; whole numbers have none.
        deviations: beside each number its deviation over several models; empty for one model.
        name: by which programs find the table in JSON.
        hidden: data for JSON, CSV and pandas that text, notebooks and the page leave out.
        marks: behind each number for people to see, as in Grid.
        absent: what text says where there is no value.
        plain: numbers have no commas, as programs read the text.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    decimals: int | Sequence[int] = 2
    deviations: Sequence[Sequence[float | None]] = ()
    name: str = ""
    hidden: bool = False
    marks: Sequence[Sequence[str]] = ()
    absent: str = "–"
    plain: bool = False

    def decimals_of(self, column: int) -> int:
        """How many decimals the numbers of a column have: none if all of them are whole."""
        numbers = [row[column] for row in self.rows if isinstance(row[column], (int, float))]
        if all(isinstance(number, int) for number in numbers):
            return 0
        return self.decimals if isinstance(self.decimals, int) else self.decimals[column]


@dataclass(frozen=True)
class Point:
    """A point of a curve, and the interval that it lies in."""

    x: float | str
    y: float
    low: float | None = None
    high: float | None = None
    note: str = ""
    marked: bool = False


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

    title: str
    x_title: str
    y_title: str
    curves: Sequence[Curve]
    decimals: int = 2
    zero: bool = False  # the y axis begins at 0
    mark: str = ""  # what a marked point means
    dashes: str = ""  # what a dashed line means
    colours: Sequence[str] = ()  # what colours mean, if they are not those of single curves
    about: str = ""  # what a reader may not know
    drawn: bool = False  # figures and the page alone show it: a table has what text needs


@dataclass(frozen=True)
class Cloud:
    """Points of one kind, (x, y) each."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Clouds:
    """Clouds of points: how two quantities go together."""

    title: str
    x_title: str
    y_title: str
    clouds: Sequence[Cloud]
    log_x: bool = False


@dataclass(frozen=True)
class Grid:
    """A heat map: a number in each cell, with what else is known of it."""

    title: str
    row_title: str
    column_title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    unit: str = ""
    decimals: int = 3
    marks: Sequence[Sequence[str]] = ()  # a letter or two in each cell
    mark: str = ""  # what the letters mean
    notes: Sequence[Sequence[str]] = ()  # more about each cell
    low: bool = False  # the lower, the better: low values are dark
    ends: tuple[float, float] | None = None  # of the colours, if not those of its own values
    absent: str = "no value"  # what a cell without a value means
    about: str = ""  # what a reader may not know
    deviations: Sequence[Sequence[float | None]] = ()  # as in Table
    name: str = ""  # as in Table
    drawn: bool = False  # as in Curves


@dataclass(frozen=True)
class Row:
    """Blocks side by side, as far as there is room."""

    blocks: Sequence[Block]


@dataclass(frozen=True)
class Option:
    name: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Choice:
    """One of several groups of blocks, to be chosen by name.

    Args:
        listed: what text and figures show, the first of which the page shows first; all if empty.
    """

    label: str
    options: Sequence[Option]
    listed: Sequence[int] = ()

    def __post_init__(self) -> None:
        if not self.options:
            raise ValueError(f"no {self.label} to choose from")

    @property
    def shown(self) -> Sequence[Option]:
        """The options that text and figures show."""
        return [self.options[place] for place in self.listed] or self.options


Block = Note | Heading | Facts | Table | Curves | Clouds | Grid | Row | Choice
TYPES = {kind.__name__.lower(): kind for kind in Block.__args__}  # as JSON names them
# What is made of parts that are no blocks, and where they are.
PARTS: dict[type, tuple[str, type]] = {
    Curves: ("curves", Curve),
    Curve: ("points", Point),
    Clouds: ("clouds", Cloud),
    Choice: ("options", Option),
}


def as_json(value: Any) -> Any:
    """A block, or what it is made of, as JSON takes it; a block says its type."""
    if hasattr(value, "__dataclass_fields__"):
        contents = {own.name: as_json(getattr(value, own.name)) for own in fields(value)}
        name = type(value).__name__.lower()
        return {"type": name, **contents} if name in TYPES else contents
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    return value


def from_json(contents: Mapping[str, Any]) -> Block:
    """The block that ``as_json`` wrote; raises what a damaged one makes Python raise."""
    own = dict(contents)
    return _made(TYPES[own.pop("type")], own)


def _made(kind: type, own: dict[str, Any]) -> Any:
    if "blocks" in own:
        own["blocks"] = [from_json(block) for block in own["blocks"]]
    if kind in PARTS:
        name, part = PARTS[kind]
        own[name] = [_made(part, dict(item)) for item in own[name]]
    return kind(**own)


def walk(
    blocks: Sequence[Block],
    keep: Callable[[Block], bool] = lambda block: True,
    *,
    all_options: bool = False,
) -> list[Block]:
    """The blocks without rows and choices around them, in their order.

    Args:
        keep: which blocks are wanted.
        all_options: also those that text leaves out.
    """
    flat: list[Block] = []
    for block in blocks:
        if isinstance(block, Row):
            flat += walk(block.blocks, keep, all_options=all_options)
        elif isinstance(block, Choice):
            options = block.options if all_options else block.shown
            for option in options:
                inner = walk(option.blocks, keep, all_options=all_options)
                if inner and len(options) > 1:
                    flat.append(Heading(option.name))
                flat += inner
        elif keep(block):
            flat.append(block)
    return flat


def is_drawn_only(block: Block) -> bool:
    """Whether figures and the page alone show it."""
    return isinstance(block, Clouds) or (isinstance(block, (Curves, Grid)) and block.drawn)


def is_written(block: Block) -> bool:
    """Whether text and notebooks show it."""
    return not is_drawn_only(block) and not (isinstance(block, Table) and block.hidden)


def chosen_from(
    label: str, groups: Mapping[str, Sequence[Block]], listed: Sequence[str] = ()
) -> list[Block]:
    """A choice between several groups; a single one stands by itself.

    Args:
        listed: the groups that text and figures show, of which the page shows the first at first.
    """
    if len(groups) == 1:
        return list(next(iter(groups.values())))
    options = [Option(name, blocks) for name, blocks in groups.items()]
    names = list(groups)
    return [Choice(label, options, [names.index(name) for name in listed if name in names])]


def without_empty(
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    title: str,
    decimals: Sequence[int],
    name: str = "",
) -> Table:
    """A table of those columns that have something in some row."""
    kept = []
    for place in range(len(columns)):
        if not rows or any(row[place] not in (None, "") for row in rows):
            kept.append(place)
    of_kept = [[row[place] for place in kept] for row in rows]
    names, places = [columns[place] for place in kept], [decimals[place] for place in kept]
    return Table(names, of_kept, title, places, name=name)


def by_layer(name: str, values: Sequence[float], *, first: int = 0, **look: Any) -> Curve:
    """A curve over layers, from 0 or from the first that has a value."""
    return Curve(name, [Point(layer, value) for layer, value in enumerate(values, first)], **look)


def on_one_scale(grids: Sequence[Grid]) -> list[Block]:
    """Maps of the same measure, which have the same colour for the same value."""
    values = [value for grid in grids for row in grid.values for value in row if value is not None]
    if not values:
        return list(grids)
    ends = min(values), max(values)
    return [replace(grid, ends=ends) for grid in grids]
