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
    """How the files were read; what is advised depends on it."""

    gold_index: int = 0
    hyp_index: int = 0
    reversed: str = ""  # the option by which hypothesis or gold were turned round, if they were
    own: bool = False  # whether the command makes the links itself: only its gold can be misread
    sure_mark: str = "-"
    possible: str = "keep"


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
# How links move if a file is read from another index: which file, and the index it was read from.
INDEX_FLAGS = (
    (1, "gold", 0, "--gold-index 1"),
    (1, "hyp", 1, "--hyp-index 0"),
    (-1, "hyp", 0, "--hyp-index 1"),
    (-1, "gold", 1, "--gold-index 0"),
)


def diagnose(
    links: Sequence[Set[Link]], golds: Sequence[Gold], read: Conventions
) -> tuple[str, bool]:
    """What looks wrong with a system's links, as they were read; nothing if it is empty.

    Returns:
        It also says whether reading the gold in another order or from another index mends it.
    """
    total = _score(Change(), links, golds)
    if total.links == 0:
        return "the hypothesis has no links at all", False
    if total.sure == 0:
        has_flag = not read.own and read.possible != "sure"
        mend = "; if all its links are sure, give --possible sure" if has_flag else ""
        return f"the gold has no sure links, so recall is undefined{mend}", False
    confused = _confused_marks(links, golds, total, read)
    if total.aer < SUSPICIOUS or total.links < ENOUGH:
        return confused, False
    aers = {change: _score(change, links, golds).aer for change in CHANGES}
    change = min(aers, key=lambda change: math.inf if math.isnan(aers[change]) else aers[change])
    better = aers[change]
    if better >= min(total.aer - GAIN, PLAUSIBLE):
        return confused or _too_long(links, golds), False
    starts_late = all(0 not in link for of_pair in links for link in of_pair)
    reasons = " and ".join(_reasons(change, read, starts_late))
    words = f"AER would be {better:.1%} instead of {total.aer:.1%} {reasons}"
    other_index = 1 if read.gold_index == 0 else -1
    is_of_gold = change.line == 0 and change.source == change.target in (0, other_index)
    return words, is_of_gold


def _score(change: Change, links: Sequence[Set[Link]], golds: Sequence[Gold]) -> Counts:
    if change.line > 0:
        links, golds = links[:-1], golds[1:]
    elif change.line < 0:
        links, golds = links[1:], golds[:-1]
    return sum(map(count, map(change.apply, links), golds), Counts())


def _reasons(change: Change, read: Conventions, starts_late: bool) -> list[str]:
    """What would make the change; ``starts_late``: the hypothesis never links a first word."""
    reasons = []
    if change.line:
        line = f"if line n were compared with gold line n{change.line:+d}"
        reasons.append(f"{line}: is a line missing or extra at the top?")
    if change.reverse:
        with_flag = "with --reverse-gold" if read.own else "with --reverse-hyp"
        reasons.append(f"without {read.reversed}" if read.reversed else with_flag)
    flag = _index_flag(change, read, starts_late)
    if flag:
        reasons.append(f"with {flag}")
    elif change.source or change.target:  # something is counted that is no word
        side = "all" if change.source == change.target else "source" if change.source else "target"
        way = "higher" if change.source + change.target > 0 else "lower"
        question = "is a dummy prefix or </s> counted as a word"
        if side == "target":
            question += ", or the other --step meant"
        reasons.append(f"if {side} words were numbered one {way}: {question}?")
    return reasons


def _index_flag(change: Change, read: Conventions, starts_late: bool) -> str:
    """The flag that moves the hypothesis against the gold, if there is one.

    Either file may be the wrong one; a hypothesis that never links a first word was read with too
    low an index.
    """
    if change.source != change.target:
        return ""
    for moves, side, index, flag in INDEX_FLAGS:
        if (change.source, getattr(read, f"{side}_index")) == (moves, index):
            of_gold = side == "gold"
            is_late = index == 1 or starts_late or read.gold_index == 0
            if of_gold or (is_late and not read.own):
                return flag
    return ""


def _confused_marks(
    links: Sequence[Set[Link]], golds: Sequence[Gold], sure: Counts, read: Conventions
) -> str:
    """A system that finds possible links more often than sure ones was scored with swapped marks.

    For sure links are the easy ones.
    """
    not_sure = [gold.possible - gold.sure for gold in golds]
    possible = _score(Change(), links, [Gold(unsure, unsure) for unsure in not_sure])
    if min(possible.sure, sure.sure) < ENOUGH or possible.recall < sure.recall + GAIN:
        return ""
    mend = f"{'give' if read.sure_mark == '-' else 'leave out'} --sure-mark p"
    return (
        f"{possible.recall:.1%} of the gold's possible links are found, but only "
        f"{sure.recall:.1%} of the sure ones: if '-' and 'p' are mixed up, "
        f"{'swap them in the gold' if read.own else mend}"
    )


def _too_long(links: Sequence[Set[Link]], golds: Sequence[Gold]) -> str:
    """Piece numbers run far beyond the last word that gold links."""
    pairs = beyond = 0
    for ours, gold in zip(links, golds, strict=True):
        if ours and gold.possible:
            pairs += 1
            last_of_gold = max(map(sum, gold.possible))
            beyond += max(map(sum, ours)) > 1.2 * last_of_gold + 2
    if not beyond or beyond < 0.2 * pairs:
        return ""
    return (
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
    read = Conventions(file.index, reversed="--reverse-gold" * file.reverse, own=True)
    advice, is_of_gold = diagnose(links, golds, read)
    if not advice:
        return []
    if refuse and is_of_gold:
        raise InputError(f"{file.name}: looks misread: {advice}")
    warnings.warn(advice, stacklevel=2)
    return [advice]
