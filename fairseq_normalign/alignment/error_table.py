"""Error rates of many soft alignments side by side, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any, NamedTuple

from fairseq_normalign.alignment.aer import Counts, percent
from fairseq_normalign.alignment.soft import Choice, Evidence

Column = tuple[str, str]  # method and step


class ErrorTable(NamedTuple):
    """How well each layer (and head) of one model aligns, by method and step."""

    scores: dict[Evidence, Counts]
    choices: dict[str, Choice]  # by method: what is chosen without gold

    @property
    def aers(self) -> dict[Evidence, float]:
        return {evidence: counts.aer for evidence, counts in self.scores.items()}

    def chosen(self, evidence: Evidence) -> bool:
        """Whether this layer is the one that is chosen without gold for its step."""
        layers = self.choices[evidence.method].layers
        return evidence.head is None and layers.get(evidence.step, -1) == evidence.layer

    def layer_means(self) -> dict[Column, float]:
        """For each method and step the mean AER of the layers, of methods that have layers."""
        columns: dict[Column, list[float]] = {}
        for evidence, aer in self.aers.items():
            if evidence.layer is not None and evidence.head is None:
                columns.setdefault((evidence.method, evidence.step), []).append(aer)
        return {column: fmean(aers) for column, aers in columns.items()}

    def as_json(self) -> list[dict[str, Any]]:
        """A row for each evidence, and one for the mean over layers of each method and step."""
        rows = [self._row(evidence) for evidence in self.scores]
        for (method, step), mean in self.layer_means().items():
            place = place_as_json(Evidence(method, None, step))
            rows.append({**place, "layer": "mean", "aer": percent(mean)})
        return rows

    def _row(self, evidence: Evidence) -> dict[str, Any]:
        counts = self.scores[evidence]
        return {
            **place_as_json(evidence),
            "chosen_without_gold": self.chosen(evidence),
            "better_step_without_gold": self.choices[evidence.method].step == evidence.step,
            "aer": percent(counts.aer),
            "precision": percent(counts.precision),
            "recall": percent(counts.recall),
            "links": counts.links,
        }


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
