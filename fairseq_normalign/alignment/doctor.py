"""Recognise the usual mistakes behind an absurd AER, and say which flag mends them.

Each mistake moves all links in the same way. So the links are moved back in every such way, and if
one of them scores
far better, it is named. Only advice: the score itself is never changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from fairseq_normalign.alignment.aer import Counts, count
from fairseq_normalign.alignment.links import Gold, Link, unpack

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


class Change(NamedTuple):
    """A way to move all links: swap the sides, then add to the source and target word; or move to a
    later line."""

    reverse: bool = False
    source: int = 0
    target: int = 0
    line: int = 0

    def apply(self, links: set[Link]) -> set[Link]:
        if self.reverse:
            return {(t + self.source, s + self.target) for s, t in links}
        return {(s + self.source, t + self.target) for s, t in links}


SHIFTS = [(0, 0), (1, 1), (-1, -1), (1, 0), (-1, 0), (0, 1), (0, -1)]
CHANGES = [Change(reverse, *shift) for reverse, shift in itertools.product((False, True), SHIFTS)]
CHANGES += [Change(line=1), Change(line=-1)]


class Sample:
    """A watcher for ``aer.score`` that keeps the first sentence pairs of one system."""

    def __init__(self, system: int) -> None:
        self.system = system
        self.links: list[set[Link]] = []
        self.golds: list[Gold] = []

    def __call__(self, number: int, gold: Gold, row: Sequence) -> None:
        if number <= SAMPLE:
            self.links.append(unpack(row[self.system]))
            self.golds.append(Gold(unpack(gold.sure), unpack(gold.possible)))


def examine(
    links: Sequence[set[Link]], golds: Sequence[Gold], read: Conventions | None = None
) -> list[str]:
    """Advice about a system's links, read under the given conventions; empty if nothing looks
    wrong."""
    total = _score(Change(), links, golds)
    if total.links == 0:
        return ["the hypothesis has no links at all"]
    if total.sure == 0:
        return [
            "the gold has no sure links, so recall is undefined; if all its links are sure, give "
            "--possible sure"
        ]
    if total.aer < SUSPICIOUS or total.links < ENOUGH:
        return _confused_marks(links, golds)
    change, better = _best_change(links, golds)
    if better < min(total.aer - GAIN, PLAUSIBLE):
        reason = _explain(change, links, read or Conventions())
        return [f"AER would be {better:.1%} instead of {total.aer:.1%} {reason}"]
    return _confused_marks(links, golds) or _too_long(links, golds)


def _score(change: Change, links: Sequence[set[Link]], golds: Sequence[Gold]) -> Counts:
    if change.line:
        links, golds = (links[:-1], golds[1:]) if change.line > 0 else (links[1:], golds[:-1])
    return sum(
        (count(change.apply(found), gold) for found, gold in zip(links, golds, strict=True)),
        Counts(),
    )


def _best_change(links: Sequence[set[Link]], golds: Sequence[Gold]) -> tuple[Change, float]:
    scores = [(_score(change, links, golds).aer, n) for n, change in enumerate(CHANGES)]
    best, n = min((aer, n) for aer, n in scores if aer == aer)
    return CHANGES[n], best


def _explain(change: Change, links: Sequence[set[Link]], read: Conventions) -> str:
    if change.line:
        return (
            f"if line n were compared with gold line n{change.line:+d}: is a line missing or extra "
            "at the top?"
        )
    flags = []
    if change.reverse:
        flags.append("without --reverse-hyp" if read.reverse_hyp else "with --reverse-hyp")
    if change.source == change.target != 0:
        flags.append("with " + _index_flag(change.source, links, read))
    reason = " and ".join(flags)
    if change.source != change.target:
        side, by = ("source", change.source) if change.source else ("target", change.target)
        reason += " and " if reason else ""
        reason += f"if {side} words were numbered {_one(by)}: is a dummy prefix or </s> "
        reason += (
            "counted as a word, or the other --step meant?"
            if side == "target"
            else "counted as a word?"
        )
    return reason


def _one(by: int) -> str:
    return "one higher" if by > 0 else "one lower"


def _index_flag(by: int, links: Sequence[set[Link]], read: Conventions) -> str:
    """The flag that moves the hypothesis by ``by`` against the gold.

    Either file may be the wrong one; a hypothesis that never links a first word was read with too
    low an index.
    """
    if by > 0:
        return "--ref-index 1" if read.ref_index == 0 else "--hyp-index 0"
    starts_late = all(min(pair) > 0 for found in links for pair in found)
    return (
        "--hyp-index 1"
        if read.hyp_index == 0 and (starts_late or read.ref_index == 0)
        else "--ref-index 0"
    )


def _confused_marks(links: Sequence[set[Link]], golds: Sequence[Gold]) -> list[str]:
    """Sure links are the easy ones: a system that finds possible ones more often was scored with
    the marks swapped."""
    only = [Gold(gold.possible - gold.sure, gold.possible - gold.sure) for gold in golds]
    possible, sure = _score(Change(), links, only), _score(Change(), links, golds)
    if min(possible.sure, sure.sure) < ENOUGH or possible.recall < sure.recall + GAIN:
        return []
    return [
        f"{possible.recall:.1%} of the gold's possible links are found, but only "
        f"{sure.recall:.1%} of the sure ones: "
        "if '-' and 'p' are mixed up, give --sure-mark p"
    ]


def _too_long(links: Sequence[set[Link]], golds: Sequence[Gold]) -> list[str]:
    """Piece numbers run far beyond the last word that gold links."""
    pairs = [
        (found, gold.possible)
        for found, gold in zip(links, golds, strict=True)
        if found and gold.possible
    ]
    beyond = sum(max(map(sum, found)) > 1.2 * max(map(sum, gold)) + 2 for found, gold in pairs)
    if beyond < 0.2 * len(pairs):
        return []
    return [
        f"in {beyond} of {len(pairs)} sentence pairs links go well beyond the gold's last word: "
        "are they links of "
        "pieces instead of words, or of a text tokenised differently?"
    ]
