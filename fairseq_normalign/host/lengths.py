"""What becomes of sentence pairs that are longer than the model takes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import Pair, Sentence

NAMED = 10  # pairs that a summary names
MODEL_TAKES = "the model takes"


class Limits(NamedTuple):
    """How many tokens a model takes, special ones included; None for a side that it has not."""

    source: int | None
    target: int | None = None

    def at_most(self, length: int | None) -> Limits:
        """The limits, none of them above a length; None changes nothing."""
        if length is None:
            return self
        return Limits(*(limit if limit is None else min(limit, length) for limit in self))


def limits_of(model) -> Limits:
    """The limits of a fairseq model; one without a decoder has no target."""
    positions = model.max_positions()
    return Limits(*positions) if isinstance(positions, tuple) else Limits(positions)


class TooLong:
    """The pairs that were too long, for a word about them at the end.

    Args:
        longest: what they were too long for.
    """

    def __init__(self, longest: str = MODEL_TAKES) -> None:
        self.longest = longest
        self.count = 0
        self.places: list[str] = []  # of the first ones

    def add(self, count: int, places: Sequence[str]) -> None:
        """So many more were too long, the first of them at these places."""
        self.count += count
        self.places += places[: NAMED - len(self.places)]

    def summary(self, policy: str) -> str:
        """One line about them."""
        done = {"fail": "refused", "skip": "skipped", "truncate": "cut off"}[policy]
        more = ", …" if self.count > len(self.places) else ""
        pairs = "1 pair" if self.count == 1 else f"{self.count} pairs"
        return f"{pairs} longer than {self.longest} {done}: {', '.join(self.places)}{more}"

    def warn(self, policy: str) -> None:
        if self.count:
            warnings.warn(self.summary(policy), stacklevel=3)


def fit_together(
    readings: Sequence[Pair],
    limits: Sequence[Limits],
    policy: str = "fail",
    report: TooLong | None = None,
) -> list[Pair]:
    """One pair as several models read it, and none longer than the model takes.

    A pair that is too long for one of them is skipped for all, and reported once.

    Args:
        policy: ``fail`` refuses the first pair that is too long; ``skip`` leaves the special tokens
            alone of both sides; ``truncate`` cuts the end off before the special tokens, so that
            the words there have no tokens. Words stay as they are: a skipped pair has no links,
            and its line in an output is empty.
        report: told of each pair that was too long.
    """
    report = report or TooLong()
    for pair, limit in zip(readings, limits, strict=True):
        too_long = excess(pair, limit, report.longest)
        if not too_long:
            continue
        if policy == "fail":
            raise InputError(f"{pair.where}: {too_long}")
        report.add(1, [pair.where])
        if policy == "skip":
            return list(map(skipped, readings))
        if policy == "truncate":
            return list(map(truncated, readings, limits))
        raise InputError(f"unknown policy {policy!r}; expected fail, skip or truncate")
    return list(readings)


def fitted(pairs: Iterable[Pair], limits: Limits, policy: str = "fail") -> list[Pair]:
    """Pairs that one model reads; warns of what was skipped or cut off."""
    report = TooLong()
    fitting = [fit_together([pair], [limits], policy, report)[0] for pair in pairs]
    report.warn(policy)
    return fitting


def excess(pair: Pair, limits: Limits, longest: str = MODEL_TAKES) -> str:
    """What is too long in a pair; '' if nothing is. ``longest`` says whose limits they are."""
    for side, limit in limits._asdict().items():
        length = len(getattr(pair, side).tokens)
        if limit is not None and length > limit:
            return f"the {side} has {length} pieces with </s>; {longest} {limit}"
    return ""


def skipped(pair: Pair) -> Pair:
    """The pair without tokens but the special ones."""
    return pair._replace(source=_cut(pair.source, 0), target=_cut(pair.target, 0), skipped=True)


def truncated(pair: Pair, limits: Limits) -> Pair:
    """The pair with as many of its first tokens as the model takes; special ones stay."""
    source = _cut(pair.source, limits.source)
    target = _cut(pair.target, limits.target)
    return pair._replace(source=source, target=target)


def _cut(sentence: Sentence, limit: int | None) -> Sentence:
    """The first tokens of a sentence, and all special ones, at most ``limit`` together."""
    if limit is None or len(sentence.words) <= limit:
        return sentence
    of_words = [place for place, word in enumerate(sentence.words) if word >= 0]
    special = len(sentence.words) - len(of_words)
    dropped = set(of_words[max(limit - special, 0) :])
    kept = [place for place in range(len(sentence.words)) if place not in dropped]
    words = [sentence.words[place] for place in kept]
    return sentence._replace(tokens=sentence.tokens[kept], words=words)
