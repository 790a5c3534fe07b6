"""Results of several models of one architecture, as of several seeds: mean ± deviation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairseq_normalign.results.blocks import (
    Block,
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
from fairseq_normalign.results.result import Result


@dataclass(frozen=True)
class SeveralResults(Result):
    """The mean of some results of one kind, and each of them by itself.

    Comparable blocks have the same shapes, as those of one measure on one architecture have.
    """

    of_models: Mapping[str, Result]  # by name of the model
    signature: Mapping[str, object]

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self._first.kind

    @property
    def title(self) -> str:  # type: ignore[override]
        return self._first.title

    @property
    def about(self) -> str:  # type: ignore[override]
        return self._first.about

    @property
    def _first(self) -> Result:
        return next(iter(self.of_models.values()))

    def blocks(self) -> Sequence[Block]:
        comparable = [result.comparable() for result in self.of_models.values()]
        mean = [mean_block(blocks) for blocks in zip(*comparable, strict=True)]
        count = Note(f"Mean ± sample deviation of {len(comparable)} models.")
        options = [Option("mean of all", [count, *mean])]
        options += [Option(name, result.blocks()) for name, result in self.of_models.items()]
        return [Choice("model", options, listed=[0])]


def together(results: Mapping[str, Result], signature: Mapping[str, object]) -> Result:
    """One result as it is, several with their mean."""
    if len(results) == 1:
        return next(iter(results.values()))
    return SeveralResults(results, signature)


def mean_block(blocks: Sequence[Block]) -> Block:
    """The mean of blocks that differ in nothing but their numbers."""
    first = blocks[0]
    if isinstance(first, Table):
        rows = [mean_cells(of_row) for of_row in zip(*(b.rows for b in blocks), strict=True)]  # type: ignore[union-attr]
        means = [[mean for mean, _ in row] for row in rows]
        return replace(first, rows=means, deviations=[[dev for _, dev in row] for row in rows])
    if isinstance(first, Grid):
        cells = [mean_cells(of_row) for of_row in zip(*(b.values for b in blocks), strict=True)]  # type: ignore[union-attr]
        means = [[mean for mean, _ in row] for row in cells]
        deviations = [[dev for _, dev in row] for row in cells]
        marks = [_counted_marks(of_row) for of_row in zip(*(b.marks for b in blocks), strict=True)]  # type: ignore[union-attr]
        return replace(first, values=means, deviations=deviations, notes=(), marks=marks)  # type: ignore[arg-type]
    if isinstance(first, Curves):
        curves = zip(*(block.curves for block in blocks), strict=True)  # type: ignore[union-attr]
        return replace(first, curves=[mean_curve(of_models) for of_models in curves])
    if isinstance(first, Row):
        inner = zip(*(block.blocks for block in blocks), strict=True)  # type: ignore[union-attr]
        return Row([mean_block(of_models) for of_models in inner])
    if isinstance(first, Choice):
        options = []
        for of_models in zip(*(block.options for block in blocks), strict=True):  # type: ignore[union-attr]
            inner = zip(*(option.blocks for option in of_models), strict=True)
            options.append(Option(of_models[0].name, [mean_block(each) for each in inner]))
        return replace(first, options=options)
    return first


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
            cells.append((_counted(of_cell), None))
        else:
            cells.append((None, None))
    return cells


def _counted(texts: Sequence[str]) -> str:
    """``1 input 4/5, 2 input 1/5``; what all have stands by itself."""
    counts = Counter(texts)
    if len(counts) == 1:
        return texts[0]
    return ", ".join(f"{text} {count}/{len(texts)}" for text, count in counts.items())


def _counted_marks(of_models: Sequence[Sequence[str]]) -> list[str]:
    """For each cell of a row every mark with the number of models that have it: ``*+4/5``."""
    marks = []
    for of_cell in zip(*of_models, strict=True):
        counts = Counter("".join(of_cell))
        shown = [
            mark if count == len(of_cell) else f"{mark}{count}/{len(of_cell)}"
            for mark, count in counts.items()
        ]
        marks.append("".join(shown))
    return marks


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """Means at each x, with the deviation as interval."""
    points = []
    for of_x in zip(*(curve.points for curve in curves), strict=True):
        values = np.array([point.y for point in of_x])
        mean, deviation = float(values.mean()), float(values.std(ddof=1))
        points.append(Point(of_x[0].x, mean, mean - deviation, mean + deviation))
    return replace(curves[0], points=points)
