"""What ``normalign aer`` shows: alignments scored against gold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fairseq_normalign.alignment import aer
from fairseq_normalign.alignment.aer import Counts, percent
from fairseq_normalign.files import short_names
from fairseq_normalign.results.blocks import Block, Cell, Curve, Curves, Facts, Point, Table
from fairseq_normalign.results.result import Result
from fairseq_normalign.results.text import as_text
from fairseq_normalign.version import __version__

UNDEFINED = "undefined"


@dataclass(frozen=True)
class System:
    """One alignment against gold.

    Args:
        options: every choice that moves the number.
        interval: of AER, 95 %.
        p: of the difference to the first system; None if it was not tested.
        bands: counts by kind of breakdown and band.
    """

    name: str
    options: Mapping[str, object]
    counts: Counts
    interval: tuple[float, float] | None = None
    p: float | None = None
    bands: Mapping[str, Mapping[str, Counts]] = field(default_factory=dict)


@dataclass(frozen=True)
class ScoresResult(Result):
    """Scores of some alignments.

    Args:
        alpha: also report F_α.
        width: decimals.
    """

    systems: Sequence[System]
    alpha: float | None = None
    width: int = 1

    kind = "scores"
    title = "Alignments against gold"
    about = "AER, the alignment error rate: the lower, the better."

    @property
    def signature(self) -> dict[str, object]:  # type: ignore[override]
        """What all systems have in common."""
        shared = {}
        for name, value in self.systems[0].options.items():
            if all((name, value) in system.options.items() for system in self.systems):
                shared[name] = value
        return {**shared, "version": __version__}

    @property
    def findings(self) -> list[str]:
        found = []
        for system in self.systems:
            found.append(f"{system.name}: AER {self.number(percent(system.counts.aer))} %.")
        return found

    def number(self, ratio: Cell) -> str:
        """A ratio as text."""
        return UNDEFINED if ratio is None else f"{ratio:.{self.width}f}"

    def text(self) -> str:
        """A line with its signature for one system, a table for several; then the breakdowns."""
        if len(self.systems) > 1:
            return super().text()
        return "\n\n".join(filter(None, [self._line(), as_text(self._breakdowns())]))

    def _line(self) -> str:
        """``AER|ref-index:1|… = 24.9 (P = … R = … links = …)``."""
        (system,) = self.systems
        measures = system.counts.measures(self.alpha)
        score = self.number(measures.pop("AER"))
        if system.interval is not None:
            score += f" [{', '.join(map(self.number, aer.ends(system.interval)))}]"
        parts = []
        for name, value in measures.items():
            shown = value if name in ("links", "sure") else self.number(value)
            parts.append(f"{name} = {shown}")
        return f"{aer.signature(system.options)} = {score} ({' '.join(parts)})"

    def blocks(self) -> list[Block]:
        signatures = [(system.name, aer.signature(system.options)) for system in self.systems]
        overall, *by_band = self._pictures()
        return [self._table(), Facts(signatures), overall, *self._breakdowns(), *by_band]

    def _names(self) -> list[str]:
        return short_names([system.name for system in self.systems])

    def _table(self) -> Table:
        rows = []
        for name, system in zip(self._names(), self.systems, strict=True):
            measures = system.counts.measures(self.alpha)
            row: dict[str, Cell] = {"system": name, "AER": measures.pop("AER")}
            if system.interval is not None:
                row["95 % from"], row["to"] = aer.ends(system.interval)
            if self.systems[-1].p is not None:
                is_undefined = system.p is not None and math.isnan(system.p)
                row["p"] = UNDEFINED if is_undefined else system.p  # None: compared with none
            rows.append({**row, **measures})
        decimals = [3 if name == "p" else self.width for name in rows[0]]
        values = [list(row.values()) for row in rows]
        return Table(list(rows[0]), values, decimals=decimals, name="systems", plain=True)

    def _breakdowns(self) -> list[Table]:
        tables = []
        for system in self.systems:
            for kind, bands in system.bands.items():
                columns = [kind, *Counts().measures(self.alpha)]
                rows = []
                for band, counts in bands.items():
                    rows.append([band, *counts.measures(self.alpha).values()])
                title = f"{system.name} by {kind}"
                tables.append(Table(columns, rows, title, self.width, absent=UNDEFINED, plain=True))
        return tables

    def _pictures(self) -> list[Curves]:
        """AERs with their intervals, and AERs by band, as of length, to be drawn."""
        named = list(zip(self._names(), self.systems, strict=True))
        points = []
        for name, system in named:
            points += _points({name: system.counts}, *aer.ends(system.interval))
        pictures = [_curves("system", [Curve("", points)])]
        for kind in self.systems[0].bands:
            curves = [Curve(name, _points(system.bands[kind])) for name, system in named]
            pictures.append(_curves(kind, curves))
        return pictures


def _points(
    counts: Mapping[str, Counts], low: float | None = None, high: float | None = None
) -> list[Point]:
    points = []
    for name, of_name in counts.items():
        ratio = percent(of_name.aer)
        if ratio is not None:
            points.append(Point(name, ratio, low, high, note=f"{of_name.links} links"))
    return points


def _curves(x_title: str, curves: Sequence[Curve]) -> Curves:
    return Curves(f"AER by {x_title}", x_title, "AER in %", curves, decimals=1, drawn=True)
