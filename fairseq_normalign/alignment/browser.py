"""Sentence pairs with all their soft alignments, as the page's browser of alignments takes them.

Soft alignments are few bytes: rounded, with the links in the same bytes, deflated, as text. A cell
is one byte. Its low seven bits hold the share that a target word takes from a source word, as a
number of steps; its highest bit says whether the two are linked. The page unpacks a sentence when
it is looked at.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fairseq_normalign.alignment.aer import count
from fairseq_normalign.alignment.combine import link_matrix
from fairseq_normalign.attention.extract import row_shares
from fairseq_normalign.attention.soft import Evidence, Soft
from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import Gold, Link, LinkFile

LINKED = 0x80
UNDEFINED = 0xFFFF  # an error rate of no links at all
LINKS = Evidence("links", None, "")  # of a file


class Quality(NamedTuple):
    """How shares are rounded."""

    levels: int  # a share is a number of steps of 1 / levels
    floor: float  # smaller shares count as none


FINEST = Quality(127, 0.0)  # of whole layers, always

# Of single heads, from the finest. What deflate makes of a corpus depends most on how many small
# shares are left.
QUALITIES = (
    FINEST,
    Quality(127, 0.01),
    Quality(127, 0.02),
    Quality(63, 0.03),
    Quality(63, 0.05),
    Quality(47, 0.05),
    Quality(31, 0.05),
    Quality(15, 0.05),
)


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

    def as_json(self) -> dict[str, Any]:
        contents = {"line": self.line, "source": list(self.source), "target": list(self.target)}
        if self.gold is not None:
            contents["sure"] = sorted(self.gold.sure)
            contents["possible"] = sorted(self.gold.possible - self.gold.sure)
        return contents


class View(NamedTuple):
    """What one model makes of a pair, in each of many ways."""

    shares: Sequence[np.ndarray]  # for each evidence (T, S+1), </s> last
    links: Sequence[Sequence[Link]]

    def packed(self, evidences: Iterable[Evidence], of_heads: Quality) -> str:
        """All soft alignments, one after the other, as base64 text.

        Whole layers are what people look at most: only single heads are rounded coarsely.
        """
        cells = []
        for evidence, shares, links in zip(evidences, *self, strict=True):
            quality = FINEST if evidence.head is None else of_heads
            cells.append(rounded(shares, links, quality).tobytes())
        return packed(b"".join(cells))


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
        text = view.packed(self.evidences, quality)
        self.packed.append(text)
        if pair.gold is not None:
            self.aers.append([count(set(links), pair.gold).aer for links in view.links])
        return len(text)

    def as_json(self) -> dict[str, Any]:
        """All but what is packed; layers and heads count from 1."""
        places = []
        for method, layer, step, head in self.evidences:
            place = {"method": method, "layer": None if layer is None else layer + 1}
            places.append({**place, "head": None if head is None else head + 1, "step": step})
        return {
            "name": self.name,
            "languages": list(self.languages),
            "soft": self.soft,
            "evidences": places,
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
            "pairs": [pair.as_json() for pair in self.pairs],
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


def shares_of(soft: Soft, *, null: bool) -> np.ndarray:
    """What each target word takes, as shares of its row: source words, then </s>; (T, S+1).

    Args:
        null: whether </s> takes part; it has no share otherwise.
    """
    of_eos = soft.null if null else np.zeros_like(soft.null)
    return row_shares(np.column_stack([soft.words, of_eos]))


def rounded(shares: np.ndarray, links: Iterable[Link], quality: Quality) -> np.ndarray:
    """Shares (T, S+1) and links as bytes: round(levels · share), and the highest bit of links."""
    steps = np.rint(shares * quality.levels)
    steps[shares < quality.floor] = 0
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


def sample_places(total: int, wanted: int) -> list[int]:
    """Places spread evenly over a corpus, to judge it by."""
    count = min(total, wanted)
    return [place * total // count for place in range(count)]


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
        size = sum(len(view.packed(evidences, quality)) for _, view in known)
        if size * cells / of_sample <= budget:
            return quality
    return QUALITIES[-1]


def rounding_note(of_heads: Quality) -> str:
    """What rounding does to the numbers that the page shows."""
    note = f"Shares are rounded to 1/{FINEST.levels}"
    if of_heads != FINEST:
        least = 100 * of_heads.floor
        note += f", those of single heads to 1/{of_heads.levels}, and below {least:.0f} % to none"
    return f"{note}; links are taken before that."


def system_of_links(
    path: str, name: str, texts: Sequence[TextPair], languages: tuple[str, str], total: int | None
) -> System:
    """The links of a file, any aligner's, that has a line for each pair of the corpus.

    Args:
        texts: the pairs that can be browsed.
        total: how many pairs the corpus has, if that is known.
    """
    system = System(name, [LINKS], {LINKS.method: LINKS}, languages, soft=False)
    text_at = {text.line: text for text in texts}
    lines = 0
    for lines, links in enumerate(LinkFile(path), 1):
        if lines in text_at:
            text = text_at[lines]
            shape = len(text.target), len(text.source)
            linked = link_matrix(links, shape, f"{path}:{lines}")
            shares = row_shares(np.pad(linked, ((0, 0), (0, 1))))  # none of </s>
            system.add(text, View([shares], [sorted(links)]), FINEST)
    expected = texts[-1].line if total is None else total
    if lines < texts[-1].line or total not in (None, lines):
        raise InputError(f"{path}: has {lines} lines; expected {expected}, one for each pair")
    return system
