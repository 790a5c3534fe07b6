"""What becomes of sentence pairs that are longer than the model takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import tee
from operator import itemgetter
from typing import NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import Pair, Sentence

POLICIES = ("fail", "skip", "truncate")
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

    def __call__(self, pair: Pair) -> None:
        self.add(1, [pair.where])

    def add(self, count: int, places: Sequence[str]) -> None:
        """So many more were too long, the first of them at these places."""
        self.count += count
        self.places += places[: NAMED - len(self.places)]

    def summary(self, policy: str) -> str:
        """One line; '' if no pair was too long."""
        done = {"fail": "refused", "skip": "skipped", "truncate": "cut off"}[policy]
        if not self.count:
            return ""
        if self.count == 1:
            return f"1 pair longer than {self.longest} was {done}: {self.places[0]}"
        return f"{self.count} pairs longer than {self.longest} were {done}: {self._named()}"

    def _named(self) -> str:
        """``lines 17, 203, …``; places of another form are listed as they are."""
        more = ", …" if self.count > len(self.places) else ""
        noun = self.places[0].partition(" ")[0]
        numbers = [place.removeprefix(f"{noun} ") for place in self.places]
        if all(number.isdigit() for number in numbers):
            return f"{noun}s {', '.join(numbers)}{more}"
        return ", ".join(self.places) + more


def fit_lengths(
    pairs: Iterable[Pair], limits: Limits, policy: str = "fail", report: TooLong | None = None
) -> Iterator[Pair]:
    """The pairs of a stream, none of them longer than the model takes.

    Args:
        policy: ``fail`` refuses the first pair that is too long; ``skip`` leaves the special tokens
            alone of both sides; ``truncate`` cuts the end off before the special tokens, so that
            the words there have no tokens. Words stay as they are: a skipped pair has no links,
            and its line in an output is empty.
        report: told of each pair that was too long.
    """
    (fitting,) = fit_streams([pairs], [limits], policy, report)
    return fitting


def fit_streams(
    streams: Sequence[Iterable[Pair]],
    limits: Sequence[Limits],
    policy: str = "fail",
    report: TooLong | None = None,
) -> list[Iterator[Pair]]:
    """As ``fit_lengths``, for models that read the same text, each its own stream of pairs.

    A pair that is too long for one of them is skipped for all, and reported once.
    """
    if policy not in POLICIES:
        raise InputError(f"unknown policy {policy!r}; expected one of: {', '.join(POLICIES)}")
    fitting = _fitting(streams, limits, policy, report)
    copies = tee(fitting, len(streams))
    return [map(itemgetter(number), copy) for number, copy in enumerate(copies)]


def _fitting(
    streams: Sequence[Iterable[Pair]],
    limits: Sequence[Limits],
    policy: str,
    report: TooLong | None,
) -> Iterator[list[Pair]]:
    longest = MODEL_TAKES if report is None else report.longest
    for pairs in zip(*streams, strict=True):
        too_long = next(filter(None, map(partial(excess, longest=longest), pairs, limits)), "")
        if not too_long:
            yield list(pairs)
            continue
        if policy == "fail":
            raise InputError(f"{pairs[0].where}: {too_long}")
        if report is not None:
            report(pairs[0])
        if policy == "skip":
            yield list(map(skipped, pairs))
        else:
            yield list(map(truncated, pairs, limits))


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
    special = sum(word < 0 for word in sentence.words)
    left = max(limit - special, 0)
    kept = []
    for place, word in enumerate(sentence.words):
        if word < 0:
            kept.append(place)
        elif left > 0:
            kept.append(place)
            left -= 1
    words = [sentence.words[place] for place in kept]
    return sentence._replace(tokens=sentence.tokens[kept], words=words)
