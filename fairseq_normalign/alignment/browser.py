"""Sentence pairs with all their soft alignments, as the page's browser of alignments takes them.

Soft alignments are few bytes: rounded, with the links in the same bytes, deflated, as text. A cell
is one byte. Its low seven bits hold the share that a target word takes from a source word, as a
number of steps; its highest bit says whether the two are linked. The page unpacks a sentence when
it is looked at.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fairseq_normalign.alignment.aer import count
from fairseq_normalign.alignment.combine import link_matrix
from fairseq_normalign.attention.extract import row_shares
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import Gold, Link, LinkFile

LINKED = 0x80
UNDEFINED = 0xFFFF  # an error rate of no links at all
LINKS = Evidence("links", None, "")  # of a file

# A share is a number of steps of 1 / LEVELS. Whole layers are what people look at most. What
# deflate makes of single heads depends most on how many small shares are left.
LEVELS = {"layers": 127, "heads": 63}
FLOOR = 0.03  # smaller shares of single heads count as none
ROUNDING = (
    f"Shares are rounded to 1/{LEVELS['layers']}, those of single heads to 1/{LEVELS['heads']}, "
    f"and below {FLOOR:.0%} to none; links are taken before that."
)


class TextPair(NamedTuple):
    """A sentence pair, its place in the corpus from 1, and its gold links if there are any."""

    line: int
    source: Sequence[str]
    target: Sequence[str]
    gold: Gold | None = None

    def as_json(self) -> dict[str, Any]:
        contents = {"line": self.line, "source": list(self.source), "target": list(self.target)}
        if self.gold is not None:
            contents["sure"] = sorted(self.gold.sure)
            contents["possible"] = sorted(self.gold.possible - self.gold.sure)
        return contents


@dataclass
class System:
    """One model, or a file of links: in which ways it aligns, and the pairs packed so far."""

    name: str
    evidences: Sequence[Evidence]
    openings: Sequence[Evidence]  # what is shown first, for each method
    languages: tuple[str, str] = ("source", "target")
    soft: bool = True  # whether it has shares, and not links alone
    packed: list[str] = field(default_factory=list)
    aers: list[list[float]] = field(default_factory=list)  # by pair and evidence

    def add(
        self, pair: TextPair, shares: Sequence[np.ndarray], links: Sequence[Sequence[Link]]
    ) -> int:
        """Packs all soft alignments of a pair; returns how many bytes that takes.

        Args:
            shares: for each evidence (T, S+1), </s> last.
            links: for each evidence.
        """
        cells = []
        for evidence, of_words, linked in zip(self.evidences, shares, links, strict=True):
            cells.append(rounded(of_words, linked, of_head=evidence.head is not None).tobytes())
        self.packed.append(packed(b"".join(cells)))
        if pair.gold is not None:
            self.aers.append([count(set(linked), pair.gold).aer for linked in links])
        return len(self.packed[-1])

    def as_json(self) -> dict[str, Any]:
        """All but what is packed; layers and heads count from 1."""
        places = []
        for evidence in self.evidences:
            layer, head = evidence.numbers
            place = {"method": evidence.method, "layer": layer, "head": head}
            places.append({**place, "step": evidence.step})
        return {
            "name": self.name,
            "languages": list(self.languages),
            "soft": self.soft,
            "evidences": places,
            "openings": [self.evidences.index(first) for first in self.openings],
        }


@dataclass
class Browser:
    """Pairs that can be looked at, in the eyes of one model or of several."""

    pairs: Sequence[TextPair]
    systems: Sequence[System]
    notes: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """All but what is packed."""
        return {
            "systems": [system.as_json() for system in self.systems],
            "pairs": [pair.as_json() for pair in self.pairs],
            "levels": LEVELS,
            "notes": [ROUNDING, *self.notes],
        }

    def packed(self) -> dict[str, str]:
        """Texts to be unpacked by the page, by their ids."""
        texts = {}
        for number, system in enumerate(self.systems):
            if system.aers:
                aers = np.array(system.aers[: len(self.pairs)])
                texts[f"aer-{number}"] = packed_error_rates(aers)
            for place, text in enumerate(system.packed[: len(self.pairs)]):
                texts[f"soft-{number}-{place}"] = text
        return texts


def rounded(shares: np.ndarray, links: Iterable[Link], *, of_head: bool) -> np.ndarray:
    """Shares (T, S+1) and links as bytes: round(levels · share), and the highest bit of links."""
    steps = np.rint(shares * LEVELS["heads" if of_head else "layers"])
    if of_head:
        steps[shares < FLOOR] = 0
    cells = steps.astype(np.uint8)
    for source, target in links:
        cells[target, source] |= LINKED
    return cells


def packed(contents: bytes) -> str:
    """Bytes deflated, in base64: what the page unpacks with DecompressionStream."""
    # Neighbours in a row have little to do with each other: matches of a few bytes cost more than
    # they save.
    deflate = zlib.compressobj(9, strategy=zlib.Z_FILTERED)
    return base64.b64encode(deflate.compress(contents) + deflate.flush()).decode("ascii")


def packed_error_rates(aers: np.ndarray) -> str:
    """Error rates (N, E) in thousandths, two bytes each, little-endian; nan is UNDEFINED."""
    thousandths = np.where(np.isnan(aers), UNDEFINED, np.rint(1000 * aers))
    return packed(thousandths.astype("<u2").tobytes())


def system_of_links(
    path: str, name: str, texts: Sequence[TextPair], languages: tuple[str, str], total: int | None
) -> System:
    """The links of a file, any aligner's, that has a line for each pair of the corpus.

    Args:
        texts: the pairs that can be browsed.
        total: how many pairs the corpus has, if that is known.
    """
    system = System(name, [LINKS], [LINKS], languages, soft=False)
    links = list(LinkFile(path))
    expected = texts[-1].line if total is None else total
    if len(links) < expected or total not in (None, len(links)):
        raise InputError(f"{path}: has {len(links)} lines; the corpus has {expected} pairs")
    for text in texts:
        shape = len(text.target), len(text.source)
        linked = link_matrix(links[text.line - 1], shape, f"{path}:{text.line}")
        shares = row_shares(np.pad(linked, ((0, 0), (0, 1))))  # none of </s>
        system.add(text, [shares], [sorted(links[text.line - 1])])
    return system
