"""Error rates of many soft alignments side by side, as plain data."""

from __future__ import annotations

from typing import Any, NamedTuple

from fairseq_normalign.alignment.aer import Counts, percent
from fairseq_normalign.alignment.soft import Choice, Evidence


class ErrorTable(NamedTuple):
    """How well each layer (and head) aligns, by method and step."""

    scores: dict[Evidence, Counts]
    choices: dict[str, Choice]  # by method: what is chosen without gold

    def chosen(self, evidence: Evidence) -> bool:
        """Whether this layer is the one that is chosen without gold for its step."""
        layers = self.choices[evidence.method].layers
        return evidence.head is None and layers.get(evidence.step, -1) == evidence.layer

    def best(self) -> set[Evidence]:
        """For each method and step the evidence of lowest AER."""
        best: dict[tuple[str, str], Evidence] = {}
        for evidence, counts in self.scores.items():
            key = evidence.method, evidence.step
            if key not in best or counts.aer < self.scores[best[key]].aer:
                best[key] = evidence
        return set(best.values())

    def as_json(self) -> list[dict[str, Any]]:
        return [self._row(evidence) for evidence in self.scores]

    def _row(self, evidence: Evidence) -> dict[str, Any]:
        counts = self.scores[evidence]
        method, layer, step, head = evidence
        return {
            "method": method,
            "layer": None if layer is None else layer + 1,
            "head": None if head is None else head + 1,
            "step": step,
            "chosen_without_gold": self.chosen(evidence),
            "better_step_without_gold": self.choices[method].step == step,
            "aer": percent(counts.aer),
            "precision": percent(counts.precision),
            "recall": percent(counts.recall),
            "links": counts.links,
        }
