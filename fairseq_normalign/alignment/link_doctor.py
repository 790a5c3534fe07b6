"""Recognise the usual mistakes behind an absurd AER, and say which flag mends them.

Each mistake moves all links in the same way. So the links are moved back in every such way, and if
one of them scores far better, it is named. Only advice: the score itself is never changed.

:func:`diagnose` returns what looks wrong as data; each has ``words``, which puts it in a sentence
with the names of a command's flags.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence, Set
from typing import NamedTuple

from fairseq_normalign.alignment.aer import Counts, count
from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import Gold, GoldFile, Link, PackedGold, unpack

SAMPLE = 1000  # sentence pairs looked at
SUSPICIOUS = 0.4  # below this AER the conventions agree: every mistake here leaves few links right
GAIN = 0.1  # how much AER a change must win to be worth a warning
# … and the AER it must reach: links of pieces, say, are near no gold, wherever they are moved
PLAUSIBLE = 0.7
ENOUGH = 50  # links; fewer prove nothing


class Conventions(NamedTuple):
    """How the files were read."""

    ref_index: int = 0
    hyp_index: int = 0
    reverse_hyp: bool = False


class Flags(NamedTuple):
    """The options that mend a mistake, or what else to do; empty where a command has none."""

    ref_index: str = "--ref-index"
    hyp_index: str = "--hyp-index"
    reverse: str = "--reverse-hyp"
    possible: str = "--possible sure"
    marks: str = "give --sure-mark p"


# Commands that make the alignment themselves: only their gold can be misread.
GOLD_FLAGS = Flags("--gold-index", "", "--reverse-gold", "", "swap them in the gold")


class Change(NamedTuple):
    """A way to move all links.

    The sides are swapped, then numbers added to the source and target word; or all links move to a
    later line.
    """

    reverse: bool = False
    source: int = 0
    target: int = 0
    line: int = 0

    def apply(self, links: Set[Link]) -> set[Link]:
        if self.reverse:
            return {(t + self.source, s + self.target) for s, t in links}
        return {(s + self.source, t + self.target) for s, t in links}


SHIFTS = [(0, 0), (1, 1), (-1, -1), (1, 0), (-1, 0), (0, 1), (0, -1)]
CHANGES = [Change(reverse, *shift) for reverse, shift in itertools.product((False, True), SHIFTS)]
CHANGES += [Change(line=1), Change(line=-1)]


class NoLinks(NamedTuple):
    """There is nothing to score."""

    def words(self, flags: Flags) -> str:
        return "the hypothesis has no links at all"


class NoSureLinks(NamedTuple):
    """All links of the gold are possible ones."""

    def words(self, flags: Flags) -> str:
        mend = f"; if all its links are sure, give {flags.possible}" if flags.possible else ""
        return f"the gold has no sure links, so recall is undefined{mend}"


class Misread(NamedTuple):
    """A change of all links makes AER much better."""

    aer: float
    better: float  # AER with the change
    change: Change
    read: Conventions
    starts_late: bool  # the hypothesis never links a first word

    def words(self, flags: Flags) -> str:
        reasons = " and ".join(self._reasons(flags))
        return f"AER would be {self.better:.1%} instead of {self.aer:.1%} {reasons}"

    @property
    def is_of_gold(self) -> bool:
        """Whether reading the gold in another order or from another index would mend it."""
        _, source, target, line = self.change
        index_is_other = source == (1 if self.read.ref_index == 0 else -1)
        return not line and source == target and (source == 0 or index_is_other)

    def _reasons(self, flags: Flags) -> list[str]:
        change = self.change
        reasons = []
        if change.line:
            reasons.append(_other_line(change.line))
        if change.reverse:
            with_or_without = "without" if self.read.reverse_hyp else "with"
            reasons.append(f"{with_or_without} {flags.reverse}")
        if change.source != change.target:
            reasons.append(_other_numbers(change))
        elif change.source:
            reasons.append(self._other_index(flags))
        return reasons

    def _other_index(self, flags: Flags) -> str:
        """The flag that moves the hypothesis against the gold.

        Either file may be the wrong one; a hypothesis that never links a first word was read with
        too low an index.
        """
        by = self.change.source
        read = self.read
        if by > 0 and read.ref_index == 0:
            return f"with {flags.ref_index} 1"
        if by > 0 and read.hyp_index == 1 and flags.hyp_index:
            return f"with {flags.hyp_index} 0"
        late = self.starts_late or read.ref_index == 0
        if by < 0 and read.hyp_index == 0 and flags.hyp_index and late:
            return f"with {flags.hyp_index} 1"
        if by < 0 and read.ref_index == 1:
            return f"with {flags.ref_index} 0"
        return f"if all words were numbered {_one(by)}: {DUMMY}?"


class SwappedMarks(NamedTuple):
    """Possible links are found more often than sure ones, which are the easy ones."""

    possible_recall: float
    sure_recall: float

    def words(self, flags: Flags) -> str:
        return (
            f"{self.possible_recall:.1%} of the gold's possible links are found, but only "
            f"{self.sure_recall:.1%} of the sure ones: if '-' and 'p' are mixed up, {flags.marks}"
        )


class TooLong(NamedTuple):
    """Links go far beyond the last word that gold links."""

    pairs_beyond: int
    pairs: int

    def words(self, flags: Flags) -> str:
        return (
            f"in {self.pairs_beyond} of {self.pairs} sentence pairs links go well beyond the "
            "gold's last word: are they links of pieces instead of words, or of a text tokenised "
            "differently?"
        )


Advice = NoLinks | NoSureLinks | Misread | SwappedMarks | TooLong


DUMMY = "is a dummy prefix or </s> counted as a word"


def _other_line(by: int) -> str:
    return (
        f"if line n were compared with gold line n{by:+d}: is a line missing or extra at the top?"
    )


def _other_numbers(change: Change) -> str:
    """One side is numbered differently: something is counted that is no word."""
    if change.source:
        return f"if source words were numbered {_one(change.source)}: {DUMMY}?"
    return (
        f"if target words were numbered {_one(change.target)}: {DUMMY}, or the other --step meant?"
    )


def _one(by: int) -> str:
    return "one higher" if by > 0 else "one lower"


class Sample:
    """A watcher for ``aer.score`` that keeps the first sentence pairs of one system."""

    def __init__(self, system: int) -> None:
        self.system = system
        self.links: list[set[Link]] = []
        self.golds: list[Gold] = []

    def __call__(self, number: int, gold: PackedGold, columns: Sequence) -> None:
        if number <= SAMPLE:
            self.links.append(unpack(columns[self.system]))
            self.golds.append(Gold(unpack(gold.sure), unpack(gold.possible)))


def diagnose(
    links: Sequence[Set[Link]], golds: Sequence[Gold], read: Conventions | None = None
) -> list[Advice]:
    """What looks wrong with a system's links, as they were read; empty if nothing does."""
    total = _score(Change(), links, golds)
    if total.links == 0:
        return [NoLinks()]
    if total.sure == 0:
        return [NoSureLinks()]
    if total.aer < SUSPICIOUS or total.links < ENOUGH:
        return _confused_marks(links, golds)
    change, better = _best_change(links, golds)
    if better < min(total.aer - GAIN, PLAUSIBLE):
        late = all(_starts_late(pairs) for pairs in links)
        return [Misread(total.aer, better, change, read or Conventions(), late)]
    return _confused_marks(links, golds) or _too_long(links, golds)


def _starts_late(links: Set[Link]) -> bool:
    return all(min(link) > 0 for link in links)


def _score(change: Change, links: Sequence[Set[Link]], golds: Sequence[Gold]) -> Counts:
    if change.line > 0:
        links, golds = links[:-1], golds[1:]
    elif change.line < 0:
        links, golds = links[1:], golds[:-1]
    total = Counts()
    for pairs, gold in zip(links, golds, strict=True):
        total += count(change.apply(pairs), gold)
    return total


def _best_change(links: Sequence[Set[Link]], golds: Sequence[Gold]) -> tuple[Change, float]:
    """The change that makes AER lowest; the first of several."""
    aers = {change: _score(change, links, golds).aer for change in CHANGES}
    defined = {change: aer for change, aer in aers.items() if not math.isnan(aer)}
    best = min(defined, key=defined.__getitem__)
    return best, defined[best]


def _confused_marks(links: Sequence[Set[Link]], golds: Sequence[Gold]) -> list[Advice]:
    """A system that finds possible links more often than sure ones was scored with swapped marks.

    For sure links are the easy ones.
    """
    not_sure = [gold.possible - gold.sure for gold in golds]
    possible = _score(Change(), links, [Gold(unsure, unsure) for unsure in not_sure])
    sure = _score(Change(), links, golds)
    if min(possible.sure, sure.sure) < ENOUGH or possible.recall < sure.recall + GAIN:
        return []
    return [SwappedMarks(possible.recall, sure.recall)]


def _too_long(links: Sequence[Set[Link]], golds: Sequence[Gold]) -> list[Advice]:
    """Piece numbers run far beyond the last word that gold links."""
    pairs = beyond = 0
    for ours, gold in zip(links, golds, strict=True):
        if ours and gold.possible:
            pairs += 1
            last_of_gold = max(map(sum, gold.possible))
            beyond += max(map(sum, ours)) > 1.2 * last_of_gold + 2
    if beyond and beyond >= 0.2 * pairs:
        return [TooLong(beyond, pairs)]
    return []


def warn_of_misread_gold(
    links: Sequence[set[Link]], golds: Sequence[Gold], file: GoldFile, *, refuse: bool = False
) -> list[str]:
    """Warns with the flags of the commands that take ``--gold``; returns what it said.

    Args:
        links: what should be near the gold, from 0.
        refuse: raise InputError if a flag would mend it.
    """
    read = Conventions(file.index, 0, file.reverse)
    said = []
    for advice in diagnose(links, golds, read):
        said.append(advice.words(GOLD_FLAGS))
        if refuse and isinstance(advice, Misread) and advice.is_of_gold:
            raise InputError(f"{file.name}: looks misread: {said[-1]}")
        warnings.warn(said[-1], stacklevel=2)
    return said
