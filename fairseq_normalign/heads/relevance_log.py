"""How gates and relevance of heads went during a training: a file of JSON lines.

One line for each validation, and one for the start: the number of updates, how relevance was
measured, and for every gated head its gate at test time, the probability that it is open, and its
share in its layer's relevance.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import name_of, read_lines
from fairseq_normalign.heads.correlation import spearman
from fairseq_normalign.names import KINDS, Head, by_kind, parse_head
from fairseq_normalign.results.blocks import Block, Cell, Curve, Curves, Note, Point, Row, Table
from fairseq_normalign.results.result import Result
from fairseq_normalign.strict_json import parse_json

DIGITS = 6  # of the numbers in the file
SHOWN = {"open": "P(gate open)", "relevance": "share of the layer's relevance"}


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
        panels = []
        for name in SHOWN:
            panels.append(Row([self._curves(kind, heads, name) for kind, heads in kinds.items()]))
        legend = Note(
            "Open: heads whose gate is open at test time. Stay, go: mean relevance of the heads "
            "that are open after the last update, and of those that are closed. ρ now, ρ first: "
            "rank correlation of P(open) with the relevance at these updates, and at the first."
        )
        return [self._open_heads(), *panels, self._table(), legend]

    def _table(self) -> Table:
        """A row for each entry."""
        first, last = self.entries[0], self.entries[-1]
        kinds = by_kind(last.heads)
        stay = last.open_heads()
        go = [head for head in last.heads if head not in set(stay)]
        rows: list[list[Cell]] = []
        for entry in self.entries:
            opened = by_kind(entry.open_heads())
            row: list[Cell] = [entry.updates, len(entry.open_heads())]
            row += [len(opened.get(kind, [])) for kind in kinds]
            row += [mean_relevance(entry, stay), mean_relevance(entry, go)]
            row += [agreement(entry, entry, entry.heads), agreement(entry, first, entry.heads)]
            rows.append(row)
        columns = ["updates", "open", *kinds, "stay", "go", "ρ now", "ρ first"]
        decimals = [0] * (2 + len(kinds)) + [3, 3, 2, 2]
        return Table(columns, rows, decimals=decimals, name="gates")

    def _open_heads(self) -> Curves:
        """How many heads of each kind are open at test time."""
        curves = []
        for kind in by_kind(self.entries[-1].heads):
            points = []
            for entry in self.entries:
                opened = [head for head in entry.open_heads() if head.kind == kind]
                points.append(Point(entry.updates, len(opened)))
            curves.append(Curve(KINDS[kind].title, points))
        axes = ("Heads whose gate is open", "updates", "heads")
        return Curves(*axes, curves, decimals=0, zero=True, drawn=True)

    def _curves(self, kind: str, heads: Sequence[Head], name: str) -> Curves:
        """One of SHOWN for every head; heads that are closed in the end are dashed."""
        layers = sorted({head.layer for head in heads})
        curves = []
        for head in heads:
            points = []
            for entry in self.entries:
                points.append(Point(entry.updates, getattr(entry.heads[head], name)))
            is_closed = not self.entries[-1].heads[head].gate > 0
            curves.append(Curve(str(head), points, is_closed, layers.index(head.layer)))
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
        if entries and entry.updates <= entries[-1].updates:
            raise InputError(
                f"{where}: {entry.updates} updates after {entries[-1].updates}; expected more with "
                "every line"
            )
        if entries and entry.heads.keys() != entries[0].heads.keys():
            raise InputError(f"{where}: other heads than in line 1; expected those of one model")
        entries.append(entry)
    return entries


def _parsed(line: str, where: str) -> Entry:
    try:
        fields = parse_json(line)
        heads = {}
        for name, state in fields["heads"].items():
            numbers = [_number(state, key) for key in GatedHead._fields]
            heads[parse_head(name)] = GatedHead(*numbers)
        updates, sentences = (operator.index(fields[key]) for key in ("updates", "sentences"))
        if not isinstance(fields["rules"], str):
            raise TypeError("rules are no text")
        return Entry(updates, sentences, fields["rules"], heads)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{where}: not a line of --log-relevance ({error}); expected JSON with updates, "
            "sentences, rules and heads"
        ) from None


def _number(state: dict, key: str) -> float:
    value = state[key]
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise TypeError(f"{key} is no number from 0 to 1")
    return float(value)


def mean_relevance(entry: Entry, heads: Collection[Head]) -> float | None:
    """The mean relevance of some heads; None without any."""
    if not heads:
        return None
    return float(np.mean([entry.heads[head].relevance for head in heads]))


def agreement(opened: Entry, explained: Entry, heads: Iterable[Head]) -> float | None:
    """Spearman's ρ of P(g ≠ 0) in one entry and relevance in another, over some heads.

    P(g ≠ 0) instead of the gate, which is the same, 0 or 1, for many heads.
    """
    heads = list(heads)
    probabilities = np.array([opened.heads[head].open for head in heads])
    relevances = np.array([explained.heads[head].relevance for head in heads])
    return spearman(probabilities, relevances)


def summary(entries: Sequence[Entry]) -> str:
    """The last entry in one line."""
    first, last = entries[0], entries[-1]
    opened = last.open_heads()
    closed = [head for head in last.heads if head not in set(opened)]
    parts = [f"open {len(opened)} ({_shown(mean_relevance(last, opened))})"]
    parts.append(f"closed {len(closed)} ({_shown(mean_relevance(last, closed))})")
    now = _signed(agreement(last, last, last.heads))
    before = _signed(agreement(last, first, last.heads))
    return (
        f"relevance of gated heads at {last.updates} updates, on {last.sentences} sentences: "
        f"{', '.join(parts)}; rank correlation of P(open) with it {now}, with that at "
        f"{first.updates} updates {before}"
    )


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}"
