"""How gates and relevance of heads went during a training: a file of JSON lines.

One line for each validation, and one for the start: the number of updates, how relevance was
measured, and for every gated head its gate at test time, the probability that it is open, and its
share in its layer's relevance.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import DAMAGE, name_of, read_lines
from fairseq_normalign.heads.correlation import spearman
from fairseq_normalign.names import KINDS, Head, by_kind, parse_head
from fairseq_normalign.results.blocks import (
    Block,
    Curve,
    Curves,
    Note,
    Point,
    Row,
    Table,
)
from fairseq_normalign.results.result import Result
from fairseq_normalign.strict_json import parse_json

DIGITS = 6  # of the numbers in the file
SHOWN = {"open": "P(gate open)", "relevance": "share of the layer's relevance"}


LEGEND = Note(
    "Open: heads whose gate is open at test time. Stay, go: mean relevance of the heads that are "
    "open after the last update, and of those that are closed. ρ now, ρ first: rank correlation of "
    "P(open) with the relevance at these updates, and at the first."
)


class GatedHead(NamedTuple):
    gate: float  # at test time, 0 to 1
    open: float  # P(g ≠ 0)
    relevance: float  # share of its layer's, mean over sentences


class Entry(NamedTuple):
    """What is known after some updates."""

    updates: int
    sentences: int  # that relevance is the mean over
    rules: str  # of LRP
    heads: dict[Head, GatedHead]

    def open_heads(self) -> list[Head]:
        """The heads whose gate is not closed at test time."""
        return [head for head, state in self.heads.items() if state.gate > 0]

    def mean_relevance(self, heads: Collection[Head]) -> float | None:
        """That of some heads; None without any."""
        return fmean(self.heads[head].relevance for head in heads) if heads else None


@dataclass(frozen=True)
class GateLog(Result):
    """How gates and relevance went, an entry for each validation."""

    entries: Sequence[Entry]

    kind = "gates"
    title = "Gates during training"
    about = "Heads were pruned while the model was trained: a head whose gate is closed is gone."

    @property
    def signature(self) -> dict[str, object]:  # type: ignore[override]
        first = self.entries[0]
        return {"sentences": first.sentences, "rules": first.rules}

    def blocks(self) -> list[Block]:
        kinds = by_kind(self.entries[-1].heads)
        rows = self.rows()
        curves = []
        for column, kind in enumerate(kinds, 2):
            points = [Point(row[0], row[column]) for row in rows]
            curves.append(Curve(KINDS[kind].title, points))
        axes = ("Heads whose gate is open", "updates", "heads")
        opened = Curves(*axes, curves, decimals=0, zero=True, drawn=True)
        panels = []
        for name in SHOWN:
            panels.append(Row([self._curves(kind, heads, name) for kind, heads in kinds.items()]))
        decimals = [0] * (2 + len(kinds)) + [3, 3, 2, 2]
        return [
            opened,
            *panels,
            Table(self.columns(), rows, decimals=decimals, name="gates"),
            LEGEND,
        ]

    def columns(self) -> list[str]:
        """What ``rows`` has."""
        kinds = by_kind(self.entries[-1].heads)
        return ["updates", "open", *kinds, "stay", "go", "ρ now", "ρ first"]

    def rows(self) -> list[list[Any]]:
        """Of each entry: updates, open heads in all and by kind, mean relevances, correlations."""
        first, last = self.entries[0], self.entries[-1]
        stay = last.open_heads()
        go = last.heads.keys() - set(stay)
        rows = []
        for entry in self.entries:
            opened = entry.open_heads()
            counts = [sum(head.kind == kind for head in opened) for kind in by_kind(last.heads)]
            relevances = [entry.mean_relevance(heads) for heads in (stay, go)]
            agreements = [agreement(entry, entry), agreement(entry, first)]
            rows.append([entry.updates, len(opened), *counts, *relevances, *agreements])
        return rows

    def _curves(self, kind: str, heads: Sequence[Head], name: str) -> Curves:
        """One of SHOWN for every head; heads that are closed in the end are dashed."""
        layers = sorted({head.layer for head in heads})
        left = self.entries[-1].open_heads()
        curves = []
        for head in heads:
            points = []
            for entry in self.entries:
                points.append(Point(entry.updates, getattr(entry.heads[head], name)))
            curves.append(Curve(str(head), points, head not in left, layers.index(head.layer)))
        return Curves(
            f"{KINDS[kind].title}: {SHOWN[name]}",
            "updates",
            SHOWN[name],
            curves,
            zero=True,
            dashes="Dashed: closed in the end.",
            colours=[f"layer {layer + 1}" for layer in layers],
            drawn=True,
        )


def as_line(entry: Entry) -> str:
    heads = {}
    for head, state in entry.heads.items():
        heads[str(head)] = {name: round(value, DIGITS) for name, value in state._asdict().items()}
    return json.dumps({**entry._asdict(), "heads": heads}, allow_nan=False)


def read_log(path: str | Path) -> list[Entry]:
    """The entries of a file, of ever more updates and of the same heads; none of an empty one."""
    entries: list[Entry] = []
    for number, line in enumerate(read_lines(path), 1):
        where = f"{name_of(path)}:{number}"
        entry = _parsed(line, where)
        for before in entries[-1:]:
            if entry.updates <= before.updates or entry.heads.keys() != before.heads.keys():
                raise InputError(
                    f"{where}: does not continue the line before; pass the log of one training"
                )
        entries.append(entry)
    return entries


def _parsed(line: str, where: str) -> Entry:
    try:
        fields = parse_json(line)
        heads = {}
        for name, state in fields["heads"].items():
            numbers = [float(state[key]) for key in GatedHead._fields]
            heads[parse_head(name)] = GatedHead(*numbers)
        updates, sentences = (operator.index(fields[key]) for key in ("updates", "sentences"))
        return Entry(updates, sentences, str(fields["rules"]), heads)
    except DAMAGE as error:
        raise InputError(
            f"{where}: not a line of --log-relevance ({error}); expected JSON with updates, "
            "sentences, rules and heads"
        ) from None


def agreement(opened: Entry, explained: Entry) -> float | None:
    """Spearman's ρ of P(g ≠ 0) in one entry and relevance in another, over all heads.

    P(g ≠ 0) instead of the gate, which is the same, 0 or 1, for many heads.
    """
    probabilities = [state.open for state in opened.heads.values()]
    relevances = [explained.heads[head].relevance for head in opened.heads]
    return spearman(probabilities, relevances)


def summary(entries: Sequence[Entry]) -> str:
    """The last entry in one line."""
    log = GateLog(entries)
    (row,) = log.rows()[-1:]
    shown = []
    for name, value in zip(log.columns(), row, strict=True):
        shown.append(f"{name} {'–' if value is None else format(value, '.4g')}")
    return f"relevance of gated heads on {entries[-1].sentences} sentences: {', '.join(shown)}"
