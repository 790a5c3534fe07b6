"""Sentence pairs with all their soft alignments, as the page's browser of alignments takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fairseq_normalign.alignment.aer import count
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.report.html.packing import (
    FINEST,
    QUALITIES,
    Quality,
    packed_error_rates,
    packed_sentence,
    qualities_of,
)
from fairseq_normalign.text.links import Gold, Link

Shares = Sequence[np.ndarray]  # for each evidence (T, S+1), </s> last


class TextPair(NamedTuple):
    """A sentence pair, its place in the corpus from 1, and its gold links if there are any."""

    line: int
    source: Sequence[str]
    target: Sequence[str]
    gold: Gold | None = None

    @property
    def cells(self) -> int:
        """How many cells each of its soft alignments has."""
        return len(self.target) * (len(self.source) + 1)


class View(NamedTuple):
    """What one model makes of a pair, in each of many ways."""

    shares: Shares
    links: Sequence[Sequence[Link]]


@dataclass
class System:
    """One model, or a file of links: in which ways it aligns, and the pairs packed so far."""

    name: str
    evidences: Sequence[Evidence]
    openings: Mapping[str, Evidence]  # for each method what is shown first
    languages: tuple[str, str] = ("source", "target")
    soft: bool = True  # whether it has shares, and not links alone
    packed: list[str] = field(default_factory=list)
    aers: list[list[float]] = field(default_factory=list)  # by pair and evidence

    def add(self, pair: TextPair, view: View, quality: Quality) -> int:
        """Packs a pair; returns how many bytes that takes."""
        text = packed_sentence(*view, qualities_of(self.evidences, quality))
        self.packed.append(text)
        if pair.gold is not None:
            gold = pair.gold
            self.aers.append([count(set(links), gold).aer for links in view.links])
        return len(text)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "languages": list(self.languages),
            "soft": self.soft,
            "evidences": [_place(evidence) for evidence in self.evidences],
            "openings": [self.evidences.index(first) for first in self.openings.values()],
        }


@dataclass
class Browser:
    """Pairs that can be looked at, in the eyes of one model or of several."""

    pairs: Sequence[TextPair]
    systems: Sequence[System]
    quality: Quality  # of single heads
    notes: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """All but what is packed."""
        return {
            "systems": [system.as_json() for system in self.systems],
            "pairs": [_pair_as_json(pair) for pair in self.pairs],
            "levels": {"layers": FINEST.levels, "heads": self.quality.levels},
            "notes": list(self.notes),
        }

    def packed(self) -> Iterator[tuple[str, str]]:
        """Texts to be unpacked by the page, by their ids."""
        for number, system in enumerate(self.systems):
            if system.aers:
                aers = np.array(system.aers[: len(self.pairs)])
                yield f"aer-{number}", packed_error_rates(aers)
            for place, text in enumerate(system.packed[: len(self.pairs)]):
                yield f"soft-{number}-{place}", text


def _pair_as_json(pair: TextPair) -> dict[str, Any]:
    contents: dict[str, Any] = {
        "line": pair.line,
        "source": list(pair.source),
        "target": list(pair.target),
    }
    if pair.gold is not None:
        contents["sure"] = sorted(pair.gold.sure)
        contents["possible"] = sorted(pair.gold.possible - pair.gold.sure)
    return contents


def sample_places(total: int, wanted: int) -> list[int]:
    """Places spread evenly over a corpus, to judge it by."""
    if total <= wanted:
        return list(range(total))
    return [place * total // wanted for place in range(wanted)]


def quality_within(
    budget: int,
    pairs: Sequence[TextPair],
    evidences: Sequence[Evidence],
    sample: Iterable[tuple[TextPair, View]],
) -> Quality:
    """The finest quality of heads at which the pairs should take no more bytes than the budget.

    Args:
        evidences: of each view.
        sample: some of the pairs, by which the others are judged.
    """
    cells = sum(pair.cells for pair in pairs)
    known = list(sample)
    of_sample = max(1, sum(pair.cells for pair, _ in known))
    for quality in QUALITIES:
        qualities = qualities_of(evidences, quality)
        sizes = [len(packed_sentence(*view, qualities)) for _, view in known]
        if sum(sizes) * cells / of_sample <= budget:
            return quality
    return QUALITIES[-1]


def rounding_note(of_heads: Quality) -> str:
    """What rounding does to the numbers that the page shows."""
    note = f"Shares are rounded to 1/{FINEST.levels}"
    if of_heads != FINEST:
        least = 100 * of_heads.floor
        note += f", those of single heads to 1/{of_heads.levels}, and below {least:.0f} % to none"
    return f"{note}; links are taken before that."


def _place(evidence: Evidence) -> dict[str, Any]:
    """Where an alignment is from; layers and heads count from 1."""
    method, layer, step, head = evidence
    return {
        "method": method,
        "layer": None if layer is None else layer + 1,
        "head": None if head is None else head + 1,
        "step": step,
    }
