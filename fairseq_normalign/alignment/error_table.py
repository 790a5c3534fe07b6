"""Error rates of many soft alignments side by side, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from types import MappingProxyType
from typing import Any, NamedTuple

from fairseq_normalign.alignment.aer import Counts, percent
from fairseq_normalign.alignment.soft import Choice, Evidence
from fairseq_normalign.html_table import Cell, html_table, percent_text

Column = tuple[str, str]  # method and step
NOTHING: Mapping = MappingProxyType({})


class Cost(NamedTuple):
    """What it takes to run a model in some way."""

    seconds: float  # for 1,000 pairs
    megabytes: float | None  # at most at once, above the model; None where that is not known


class Costs(NamedTuple):
    """What each method takes by itself, at one layer, beside a plain forward pass."""

    pairs: int  # how many it was measured on
    batch_tokens: int
    forward: Cost
    methods: dict[str, Cost]

    def forwards(self, method: str) -> float:
        """How many forward passes take as long."""
        return self.methods[method].seconds / self.forward.seconds


class ErrorTable(NamedTuple):
    """How well each layer (and head) of one model aligns, by method and step."""

    scores: dict[Evidence, Counts]
    choices: dict[str, Choice]  # by method: what is chosen without gold
    intervals: Mapping[Evidence, tuple[float, float]] = NOTHING  # of AER, 95 %
    rules: Mapping[str, str] = NOTHING  # by method: how links are taken
    costs: Costs | None = None
    advice: Sequence[str] = ()  # what looks wrong with the gold

    @property
    def aers(self) -> dict[Evidence, float]:
        return {evidence: counts.aer for evidence, counts in self.scores.items()}

    def chosen(self, evidence: Evidence) -> bool:
        """Whether this layer is the one that is chosen without gold for its step."""
        layers = self.choices[evidence.method].layers
        return evidence.head is None and layers.get(evidence.step, -1) == evidence.layer

    def choice(self, method: str) -> Evidence:
        """The layer and step that are chosen without gold for a method."""
        layers, step, _ = self.choices[method]
        return Evidence(method, layers[step], step)

    def layer_means(self) -> dict[Column, float]:
        """For each method and step the mean AER of the layers, of methods that have layers."""
        columns: dict[Column, list[float]] = {}
        for evidence, aer in self.aers.items():
            if evidence.layer is not None and evidence.head is None:
                columns.setdefault((evidence.method, evidence.step), []).append(aer)
        return {column: fmean(aers) for column, aers in columns.items()}

    def _repr_html_(self) -> str:
        """What a notebook shows: a row for each layer and head, a column for a method and step."""
        aers = self.aers
        columns = list(dict.fromkeys((evidence.method, evidence.step) for evidence in aers))
        places = list(dict.fromkeys((evidence.layer, evidence.head) for evidence in aers))
        best = best_of_columns(aers)
        rows = []
        for layer, head in places:
            cells: list[str | Cell] = [_place_name(layer, head)]
            for method, step in columns:
                evidence = Evidence(method, layer, step, head)
                marks = "*" * (evidence in best)
                if evidence in aers and self.chosen(evidence):
                    marks += "+"
                cells.append(Cell(percent_text(aers.get(evidence)) + marks, 0.5 * bool(marks)))
            rows.append(cells)
        header = ["layer", *(f"{method}, {step}" for method, step in columns)]
        caption = "AER in %: * the best of a column, + the layer that is chosen without gold"
        return html_table(header, rows, caption=caption)

    def as_json(self) -> list[dict[str, Any]]:
        """A row for each evidence, and one for the mean over layers of each method and step."""
        best = set(best_of_methods(self.aers).values())
        rows = [self._row(evidence, best=evidence in best) for evidence in self.scores]
        for (method, step), mean in self.layer_means().items():
            place = place_as_json(Evidence(method, None, step))
            rows.append({**place, "layer": "mean", "aer": percent(mean)})
        return rows

    def _row(self, evidence: Evidence, *, best: bool) -> dict[str, Any]:
        counts = self.scores[evidence]
        row = {
            **place_as_json(evidence),
            "chosen_without_gold": self.chosen(evidence),
            "better_step_without_gold": self.choices[evidence.method].step == evidence.step,
            "best_by_gold": best,
            "aer": percent(counts.aer),
            "precision": percent(counts.precision),
            "recall": percent(counts.recall),
            "links": counts.links,
        }
        if evidence in self.intervals:
            row["interval"] = list(map(percent, self.intervals[evidence]))
        if evidence.method in self.rules:
            row["extract"] = self.rules[evidence.method]
        if self.costs is not None:
            row["cost"] = self._cost(evidence.method, self.costs)
        return row

    def _cost(self, method: str, costs: Costs) -> dict[str, Any]:
        seconds, megabytes = costs.methods[method]
        return {
            "forward_passes": round(costs.forwards(method), 4),
            "seconds_per_1000_pairs": round(seconds, 4),
            "megabytes": None if megabytes is None else round(megabytes, 1),
            "pairs": costs.pairs,
            "batch_tokens": costs.batch_tokens,
        }


def _place_name(layer: int | None, head: int | None) -> str:
    """Layer and head from 1; a method of the whole model has neither."""
    if layer is None:
        return "all"
    return f"{layer + 1}" if head is None else f"{layer + 1}.{head + 1}"


def place_as_json(evidence: Evidence) -> dict[str, Any]:
    """Where an error rate is from; layers and heads count from 1."""
    method, layer, step, head = evidence
    return {
        "method": method,
        "layer": None if layer is None else layer + 1,
        "head": None if head is None else head + 1,
        "step": step,
    }


def best_of_columns(aers: Mapping[Evidence, float]) -> set[Evidence]:
    """For each method and step the evidence of lowest AER, the first one of equals."""
    best: dict[Column, Evidence] = {}
    for evidence, aer in aers.items():
        column = evidence.method, evidence.step
        if column not in best or aer < aers[best[column]]:
            best[column] = evidence
    return set(best.values())


def best_of_methods(aers: Mapping[Evidence, float]) -> dict[str, Evidence]:
    """For each method the layer and step of lowest AER, the first one of equals; heads apart."""
    best: dict[str, Evidence] = {}
    for evidence, aer in aers.items():
        method = evidence.method
        if evidence.head is None and (method not in best or aer < aers[best[method]]):
            best[method] = evidence
    return best
