"""Recognise the usual mistakes behind an absurd AER, and say which flag mends them.

Each mistake moves all links in the same way. So the links are moved back in every such way, and if
one of them scores far better, it is named. Only advice: the score itself is never changed.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence, Set
from typing import NamedTuple

from fairseq_normalign.alignment.aer import Counts, count
from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import Gold, GoldFile, Link

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

    ref_index: str = "--gold-index"
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


class Advice(NamedTuple):
    """What looks wrong."""

    words: str
    is_of_gold: bool = False  # reading the gold in another order or from another index mends it


def diagnose(
    links: Sequence[Set[Link]],
    golds: Sequence[Gold],
    read: Conventions | None = None,
    flags: Flags | None = None,
) -> Advice | None:
    """What looks wrong with a system's links, as they were read; None if nothing does."""
    read, flags = read or Conventions(), flags or Flags()
    total = _score(Change(), links, golds)
    if total.links == 0:
        return Advice("the hypothesis has no links at all")
    if total.sure == 0:
        mend = f"; if all its links are sure, give {flags.possible}" if flags.possible else ""
        return Advice(f"the gold has no sure links, so recall is undefined{mend}")
    confused = _confused_marks(links, golds, total, flags)
    if total.aer < SUSPICIOUS or total.links < ENOUGH:
        return confused
    aers = {change: _score(change, links, golds).aer for change in CHANGES}
    change = min(aers, key=lambda change: math.inf if math.isnan(aers[change]) else aers[change])
    better = aers[change]
    if better >= min(total.aer - GAIN, PLAUSIBLE):
        return confused or _too_long(links, golds)
    first_words = any(0 in link for link in itertools.chain.from_iterable(links))
    reasons = " and ".join(_reasons(change, read, flags, not first_words))
    words = f"AER would be {better:.1%} instead of {total.aer:.1%} {reasons}"
    index_is_other = change.source == (1 if read.ref_index == 0 else -1)
    moved_alike = change.source == change.target and (change.source == 0 or index_is_other)
    return Advice(words, is_of_gold=moved_alike and not change.line)


def _score(change: Change, links: Sequence[Set[Link]], golds: Sequence[Gold]) -> Counts:
    if change.line > 0:
        links, golds = links[:-1], golds[1:]
    elif change.line < 0:
        links, golds = links[1:], golds[:-1]
    return sum(map(count, map(change.apply, links), golds), Counts())


def _reasons(change: Change, read: Conventions, flags: Flags, starts_late: bool) -> list[str]:
    """What would make the change; ``starts_late``: the hypothesis never links a first word."""
    reasons = []
    if change.line:
        reasons.append(
            f"if line n were compared with gold line n{change.line:+d}: is a line missing or extra "
            "at the top?"
        )
    if change.reverse:
        reasons.append(f"{'without' if read.reverse_hyp else 'with'} {flags.reverse}")
    if change.source == change.target:
        if change.source:
            reasons.append(_other_index(change.source, read, flags, starts_late))
    elif change.source:  # something is counted that is no word
        reasons.append(f"if source words were numbered {_one(change.source)}: {DUMMY}?")
    else:
        reasons.append(
            f"if target words were numbered {_one(change.target)}: {DUMMY}, or the other --step "
            "meant?"
        )
    return reasons


DUMMY = "is a dummy prefix or </s> counted as a word"


def _one(by: int) -> str:
    return "one higher" if by > 0 else "one lower"


def _other_index(by: int, read: Conventions, flags: Flags, starts_late: bool) -> str:
    """The flag that moves the hypothesis against the gold.

    Either file may be the wrong one; a hypothesis that never links a first word was read with too
    low an index.
    """
    if by > 0 and read.ref_index == 0:
        return f"with {flags.ref_index} 1"
    if by > 0 and read.hyp_index == 1 and flags.hyp_index:
        return f"with {flags.hyp_index} 0"
    late = starts_late or read.ref_index == 0
    if by < 0 and read.hyp_index == 0 and flags.hyp_index and late:
        return f"with {flags.hyp_index} 1"
    if by < 0 and read.ref_index == 1:
        return f"with {flags.ref_index} 0"
    return f"if all words were numbered {_one(by)}: {DUMMY}?"


def _confused_marks(
    links: Sequence[Set[Link]], golds: Sequence[Gold], sure: Counts, flags: Flags
) -> Advice | None:
    """A system that finds possible links more often than sure ones was scored with swapped marks.

    For sure links are the easy ones.
    """
    not_sure = [gold.possible - gold.sure for gold in golds]
    possible = _score(Change(), links, [Gold(unsure, unsure) for unsure in not_sure])
    if min(possible.sure, sure.sure) < ENOUGH or possible.recall < sure.recall + GAIN:
        return None
    return Advice(
        f"{possible.recall:.1%} of the gold's possible links are found, but only "
        f"{sure.recall:.1%} of the sure ones: if '-' and 'p' are mixed up, {flags.marks}"
    )


def _too_long(links: Sequence[Set[Link]], golds: Sequence[Gold]) -> Advice | None:
    """Piece numbers run far beyond the last word that gold links."""
    pairs = beyond = 0
    for ours, gold in zip(links, golds, strict=True):
        if ours and gold.possible:
            pairs += 1
            last_of_gold = max(map(sum, gold.possible))
            beyond += max(map(sum, ours)) > 1.2 * last_of_gold + 2
    if not beyond or beyond < 0.2 * pairs:
        return None
    return Advice(
        f"in {beyond} of {pairs} sentence pairs links go well beyond the gold's last word: are "
        "they links of pieces instead of words, or of a text tokenised differently?"
    )


def warn_of_misread_gold(
    links: Sequence[set[Link]], golds: Sequence[Gold], file: GoldFile, *, refuse: bool = False
) -> list[str]:
    """Warns with the flags of the commands that take ``--gold``; returns what it said.

    Args:
        links: what should be near the gold, from 0.
        refuse: raise InputError if a flag would mend it.
    """
    advice = diagnose(links, golds, Conventions(file.index, 0, file.reverse), GOLD_FLAGS)
    if advice is None:
        return []
    if refuse and advice.is_of_gold:
        raise InputError(f"{file.name}: looks misread: {advice.words}")
    warnings.warn(advice.words, stacklevel=2)
    return [advice.words]
