"""Results of several models of one architecture, as of several seeds: mean ± deviation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairseq_normalign.results.blocks import (
    Cell,
    Choice,
    Curve,
    Curves,
    Grid,
    Note,
    Option,
    Point,
    Row,
    Table,
)
from fairseq_normalign.results.result import Result, StoredResult

INSIDE = {Row: "blocks", Option: "blocks", Choice: "options", Curves: "curves"}


def together(results: Mapping[str, Result], signature: Mapping[str, object]) -> Result:
    """One result as it is; the mean of several, and each of them by itself.

    Args:
        results: of one kind, by name of the model. Their comparable blocks have the same shapes, as
            those of one measure on one architecture have.
    """
    first = next(iter(results.values()))
    if len(results) == 1:
        return first
    comparable = [result.comparable() for result in results.values()]
    mean = [mean_block(blocks) for blocks in zip(*comparable, strict=True)]
    count = Note(f"Mean ± sample deviation of {len(comparable)} models.")
    options = [Option("mean of all", [count, *mean])]
    options += [Option(name, result.blocks()) for name, result in results.items()]
    blocks = [Choice("model", options, listed=[0])]
    return StoredResult(first.kind, first.title, blocks, first.about, signature)


def mean_block(blocks: Sequence[Any]) -> Any:
    """The mean of blocks, or of their parts, that differ in nothing but their numbers."""
    first = blocks[0]
    if isinstance(first, Curve):
        return mean_curve(blocks)
    if type(first) in INSIDE:
        name = INSIDE[type(first)]
        means = [mean_block(of_models) for of_models in _side_by_side(blocks, name)]
        return replace(first, **{name: means})
    if not isinstance(first, (Table, Grid)):
        return first
    name = "rows" if isinstance(first, Table) else "values"
    cells = [mean_cells(of_row) for of_row in _side_by_side(blocks, name)]
    changes: dict[str, Any] = {
        name: [[mean for mean, _ in row] for row in cells],
        "deviations": [[deviation for _, deviation in row] for row in cells],
    }
    if isinstance(first, Grid):
        marks = [_counted_marks(of_row) for of_row in _side_by_side(blocks, "marks")]
        changes |= {"notes": (), "marks": marks}
    return replace(first, **changes)


def _side_by_side(blocks: Sequence[Any], name: str) -> list[tuple]:
    """What the blocks hold under a name, each item beside those of the other models."""
    return list(zip(*(getattr(block, name) for block in blocks), strict=True))


def mean_cells(of_models: Sequence[Sequence[Cell]]) -> list[tuple[Cell, float | None]]:
    """Mean and sample deviation of each cell of a row.

    Text that differs says how many models have it; numbers that a model lacks are left out.
    """
    cells: list[tuple[Cell, float | None]] = []
    for of_cell in zip(*of_models, strict=True):
        if all(isinstance(value, (int, float)) for value in of_cell):
            numbers = np.array(of_cell, dtype=float)
            varies = len(set(of_cell)) > 1 or any(isinstance(value, float) for value in of_cell)
            mean = float(numbers.mean()) if varies else of_cell[0]
            cells.append((mean, float(numbers.std(ddof=1)) if varies else None))
        elif all(isinstance(value, str) for value in of_cell):
            # ``1 input 4/5, 2 input 1/5``; what all have stands by itself.
            cells.append((", ".join(_shares(Counter(of_cell), len(of_cell), " ")), None))
        else:
            cells.append((None, None))
    return cells


def _counted_marks(of_models: Sequence[Sequence[str]]) -> list[str]:
    """For each cell of a row every mark with the number of models that have it: ``*+4/5``."""
    marks = []
    for of_cell in zip(*of_models, strict=True):
        marks.append("".join(_shares(Counter("".join(of_cell)), len(of_cell))))
    return marks


def _shares(counts: Counter[str], models: int, gap: str = "") -> list[str]:
    """What some models have, and how many of them: ``text 4/5``; what all have has no number."""
    shares = []
    for text, count in counts.items():
        shares.append(text if count == models else f"{text}{gap}{count}/{models}")
    return shares


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """Means at each x, with the deviation as interval."""
    points = []
    for of_x in _side_by_side(curves, "points"):
        values = np.array([point.y for point in of_x])
        mean, deviation = float(values.mean()), float(values.std(ddof=1))
        points.append(Point(of_x[0].x, mean, mean - deviation, mean + deviation))
    return replace(curves[0], points=points)
