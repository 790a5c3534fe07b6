"""What becomes of sentence pairs that are longer than the model takes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import Pair, Sentence

DONE = {"fail": "refused", "skip": "skipped", "truncate": "cut off"}  # with them, by policy
NAMED = 10  # pairs that a summary names


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
    """What becomes of pairs that are too long; and which they were, for a word at the end.

    Args:
        policy: ``fail`` refuses the first pair that is too long; ``skip`` leaves the special tokens
            alone of both sides; ``truncate`` cuts the end off before the special tokens, so that
            the words there have no tokens. Words stay as they are: a skipped pair has no links,
            and its line in an output is empty.
    """

    def __init__(self, policy: str = "fail") -> None:
        if policy not in DONE:
            raise InputError(f"unknown policy {policy!r}; expected {', '.join(DONE)}")
        self.policy = policy
        self.count = 0
        self.places: list[str] = []  # of the first ones

    def fit(self, readings: Sequence[Pair], limits: Sequence[Limits]) -> list[Pair]:
        """One pair as several models read it, and none longer than the model takes.

        A pair that is too long for one of them is skipped for all, and reported once.
        """
        found = list(filter(None, map(excess, readings, limits)))
        if not found:
            return list(readings)
        where = readings[0].where
        if self.policy == "fail":
            raise InputError(f"{where}: {found[0]}")
        self._add(1, [where])
        if self.policy == "skip":
            return list(map(skipped, readings))
        return list(map(truncated, readings, limits))

    def _add(self, count: int, places: Sequence[str]) -> None:
        self.count += count
        self.places += places[: NAMED - len(self.places)]

    def notes(self) -> dict[str, Any]:
        """The same, as JSON holds it."""
        return {"too_long": [self.count, self.places], "policy": self.policy}

    def add(self, notes: Mapping[str, Any]) -> None:
        """Joins the notes of a chunk; refuses one whose long pairs were dealt with in another way.

        Where a corpus is gone through several times, one measure tells.
        """
        if not notes:
            return
        count, places = notes["too_long"]
        if count and notes["policy"] != self.policy:
            raise InputError(
                f"{places[0]} was done before with --too-long {notes['policy']}, and this run is "
                f"with --too-long {self.policy}; use the same, or --restart"
            )
        self._add(count, places)

    def tell(self) -> None:
        """Warns of them, in one line."""
        if self.count:
            more = ", …" if self.count > len(self.places) else ""
            pairs = "1 pair" if self.count == 1 else f"{self.count} pairs"
            done, places = DONE[self.policy], ", ".join(self.places)
            told = f"{pairs} longer than the model takes {done}: {places}{more}"
            warnings.warn(told, stacklevel=3)


def fitted(pairs: Iterable[Pair], limits: Limits, policy: str = "fail") -> list[Pair]:
    """Pairs that one model reads; warns of what was skipped or cut off."""
    too_long = TooLong(policy)
    fitting = [too_long.fit([pair], [limits])[0] for pair in pairs]
    too_long.tell()
    return fitting


def excess(pair: Pair, limits: Limits) -> str:
    """What is too long in a pair; '' if nothing is."""
    for side, limit in limits._asdict().items():
        length = len(getattr(pair, side).tokens)
        if limit is not None and length > limit:
            return f"the {side} has {length} pieces with </s>; the model takes {limit}"
    return ""


def skipped(pair: Pair) -> Pair:
    """The pair without tokens but the special ones."""
    return truncated(pair, Limits(0, 0))._replace(skipped=True)


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
