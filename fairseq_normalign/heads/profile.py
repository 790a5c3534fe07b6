"""All that is known of the heads of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from fairseq_normalign.attention.lrp_rules import Contributions
from fairseq_normalign.heads.criteria import FUNCTIONS, Criteria
from fairseq_normalign.heads.syntax import Accuracy
from fairseq_normalign.html_table import NOTHING, Cell, html_table, number_text
from fairseq_normalign.names import Head


class Finding(NamedTuple):
    """What one score says: a number for each head, and details that are fields of the profile.

    Settings are the choices that moved the numbers, for the signature.
    """

    scores: Mapping[Head, float] = {}
    details: Mapping[str, Any] = {}
    settings: Mapping[str, Any] = {}


class RareInfluence(NamedTuple):
    """How many times the relevance of a word's token the rarest one has (``roles``)."""

    mean: float
    sentences: int


@dataclass
class Profile:
    """Scores and roles of the heads of a model; what was not measured is not there."""

    heads: list[Head]
    scores: dict[str, dict[Head, float]] = field(default_factory=dict)
    positions: dict[Head, dict] = field(default_factory=dict)
    rare: dict[Head, dict] = field(default_factory=dict)
    rare_moved: dict[Head, dict] = field(default_factory=dict)  # with some tokens moved
    relations: dict[str, Accuracy] = field(default_factory=dict)
    parsed: list[Head] = field(default_factory=list)  # the heads in the order of the accuracies
    branching: dict[str, float] = field(default_factory=dict)
    deviation: dict[str, float] = field(default_factory=dict)  # of relevance from 1, by layer
    contributions: Contributions | None = None  # of source and prefix to each target position
    rare_influence: RareInfluence | None = None  # of the rarest source token
    steps: dict[Head, str] = field(default_factory=dict)  # the decoder's step of each AER
    signature: dict[str, Any] = field(default_factory=dict)  # how all of it was measured

    def add(self, name: str, finding: Finding) -> None:
        """Takes in what a score says; heads that the profile is not about are left out."""
        scores = {head: finding.scores[head] for head in self.heads if head in finding.scores}
        if scores:
            self.scores[name] = scores
        for detail, value in finding.details.items():
            setattr(self, detail, value)
        self.signature.update(finding.settings)

    def renamed(self, names: Mapping[Head, Head]) -> Profile:
        """The same of heads that have other names, wherever they stand."""
        by_field = {own.name: _renamed(getattr(self, own.name), names) for own in fields(self)}
        return Profile(**by_field)

    def _repr_html_(self) -> str:
        """What a notebook shows: a row for each head, a column for each score, and its position."""
        positions = ["position"] if self.positions else []
        rows: list[list[str | Cell]] = []
        for head in self.heads:
            cells = [self._cell(name, head) for name in self.scores]
            where = [self.position(head)] if self.positions else []
            rows.append([str(head), *cells, *where])
        caption = "; ".join(f"{name}: {value}" for name, value in self.signature.items())
        return html_table(["head", *self.scores, *positions], rows, caption=caption)

    def _cell(self, name: str, head: Head) -> Cell:
        """A score, the darker the higher it is among those of all heads."""
        scores = self.scores[name]
        if head not in scores:
            return Cell(NOTHING)
        low, high = min(scores.values()), max(scores.values())
        shade = (scores[head] - low) / (high - low) if high > low else 0.0
        return Cell(number_text(scores[head], ".3f"), shade)

    def position(self, head: Head) -> str:
        """Where most maxima are, relative to the query: ``-1 (57 %)``; nothing if not measured."""
        if head not in self.positions:
            return ""
        offset, share = self.positions[head]["offset"], self.positions[head]["share"]
        return _labelled(f"{offset:+d}" if offset else "0", share)

    def roles(self, head: Head, criteria: Criteria) -> list[str]:
        """Labels such as ``-1 (97 %)``, ``rare (55 %)`` or ``nsubj→head 62/35``.

        The last one has accuracy and baseline in %.
        """
        return [label for _, label in self._functions_and_labels(head, criteria)]

    def functions(self, head: Head, criteria: Criteria) -> list[str]:
        """Its functions, in the order of ``criteria.FUNCTIONS``, each once."""
        performed = {function for function, _ in self._functions_and_labels(head, criteria)}
        return [function for function in FUNCTIONS if function in performed]

    def _functions_and_labels(self, head: Head, criteria: Criteria) -> Iterator[tuple[str, str]]:
        place = self.positions.get(head)
        if place and place["share"] >= criteria.positional:
            yield "positional", self.position(head)
        if place and place["patterns"].get("last", 0) >= criteria.positional:
            yield "last", _labelled("last", place["patterns"]["last"])
        number = self.parsed.index(head) if head in self.parsed else None
        for name, accuracy in self.relations.items():
            if number is not None and accuracy.beats_baseline(number, criteria.margin):
                share = accuracy.heads[number]
                baseline = accuracy.baseline or 0
                yield "syntactic", f"{name} {100 * share:.0f}/{100 * baseline:.0f}"
        share = self.rare.get(head, {}).get("rarest", {}).get("tokens", 0)
        if share >= criteria.rare:
            yield "rare", _labelled("rare", share)


def _renamed(value: Any, names: Mapping[Head, Head]) -> Any:
    """A value with other names of heads: itself, the keys of a mapping, the items of a list."""
    if isinstance(value, Head):
        return names[value]
    if isinstance(value, dict):
        return {_renamed(key, names): _renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    return value


def _labelled(name: str, share: float) -> str:
    return f"{name} ({100 * share:.0f} %)"
