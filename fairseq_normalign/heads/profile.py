"""All that is known of the heads of a model."""

from __future__ import annotations

from dataclasses import dataclass, field

from fairseq_normalign.heads.lrp_rules import Contributions
from fairseq_normalign.heads.names import Head
from fairseq_normalign.heads.roles import POSITIONAL
from fairseq_normalign.heads.syntax import Accuracy


@dataclass
class Criteria:
    """When a head is said to have a role."""

    positional: float = POSITIONAL
    rare: float = 0.5
    margin: str = "relative"


@dataclass
class Profile:
    """Scores and roles of the heads of a model; what was not measured is not there."""

    heads: list[Head]
    scores: dict[str, dict[Head, float]] = field(default_factory=dict)
    positions: dict[Head, dict] = field(default_factory=dict)
    rare: dict[Head, dict] = field(default_factory=dict)
    rare_swapped: dict[Head, dict] = field(default_factory=dict)
    relations: dict[str, Accuracy] = field(default_factory=dict)
    parsed: list[Head] = field(default_factory=list)  # the heads in the order of the accuracies
    branching: dict[str, float] = field(default_factory=dict)
    deviation: dict[str, float] = field(default_factory=dict)  # of relevance from 1, by layer
    contributions: Contributions | None = None  # of source and prefix to each target position
    steps: dict[Head, str] = field(default_factory=dict)  # the decoder's step of each AER

    def position(self, head: Head) -> str:
        """Where most maxima are, relative to the query: ``-1 (57 %)``; nothing if that was not
        measured."""
        found = self.positions.get(head)
        return (
            _labelled(f"{found['offset']:+d}" if found["offset"] else "0", found["share"])
            if found
            else ""
        )

    def roles(self, head: Head, criteria: Criteria) -> list[str]:
        """Labels such as ``-1 (97 %)``, ``nsubj→head 62/35`` (accuracy and baseline in %) or ``rare
        (55 %)``."""
        labels = []
        place = self.positions.get(head)
        if place and place["share"] >= criteria.positional:
            labels.append(self.position(head))
        if place and place["patterns"].get("last", 0) >= criteria.positional:
            labels.append(_labelled("last", place["patterns"]["last"]))
        number = self.parsed.index(head) if head in self.parsed else None
        for name, accuracy in self.relations.items():
            if number is not None and accuracy.found(number, criteria.margin):
                labels.append(
                    f"{name} {100 * accuracy.heads[number]:.0f}/{100 * accuracy.baseline:.0f}"
                )
        share = self.rare.get(head, {}).get("rarest", {}).get("tokens", 0)
        if share >= criteria.rare:
            labels.append(_labelled("rare", share))
        return labels


def _labelled(name: str, share: float) -> str:
    return f"{name} ({100 * share:.0f} %)"
