"""How often the words of a corpus are linked with each other, and what that says of a pair.

Counts are expected ones: a cell whose link has probability 0.3 counts 0.3.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

LEAST = 0.01  # cells below do not count: they would fill the memory and say nothing
SMOOTHING = 2.0  # links that each word is given beforehand, by how frequent the others are


class Lexicon:
    """Expected numbers of links between words, and the pairs that they were counted in.

    A pair should not confirm its own links. So the lexicon remembers which pairs it was counted in,
    by a hash, and leaves out what a pair has contributed itself.
    """

    def __init__(self) -> None:
        self.links: dict[tuple[str, str], float] = {}  # (source, target)
        self.sources: dict[str, float] = {}  # the links of each word
        self.targets: dict[str, float] = {}
        self.total = 0.0
        self.pairs: Counter[int] = Counter()  # how often a pair was counted, by its hash

    def add(self, source: Sequence[str], target: Sequence[str], soft: np.ndarray) -> None:
        """Counts a pair; ``soft`` (T, S) are the probabilities of its links."""
        self.pairs[_fingerprint(source, target)] += 1
        for t, s in zip(*np.nonzero(soft >= LEAST), strict=True):
            self._count(source[s], target[t], float(soft[t, s]))

    def _count(self, source: str, target: str, count: float) -> None:
        self.links[source, target] = self.links.get((source, target), 0.0) + count
        self.sources[source] = self.sources.get(source, 0.0) + count
        self.targets[target] = self.targets.get(target, 0.0) + count
        self.total += count

    def association(
        self, source: Sequence[str], target: Sequence[str], soft: np.ndarray
    ) -> np.ndarray:
        """½ log τ(t | s) / u(t) + ½ log τ(s | t) / u(s) of all words of a pair, (T, S).

        τ(t | s) = (n(s, t) + β u(t)) / (n(s) + β) is the probability that a link of s leads to t,
        u(t) the share that t has of all links. Of words that were never seen it is 0; of words
        that were seen often, and never linked, it is negative.

        Args:
            soft: the probabilities of the pair's links, to leave out what it has contributed.
        """
        linked, of_sources, of_targets = self._counts(source, target)
        # u: the share of all links, with half a link for each word
        share_of_sources = (of_sources + 0.5) / (self.total + 0.5 * (len(self.sources) + 1))
        share_of_targets = (of_targets + 0.5) / (self.total + 0.5 * (len(self.targets) + 1))
        times = self.pairs[_fingerprint(source, target)]
        if times:
            same_source, same_target = _same(source), _same(target)
            own = np.where(soft >= LEAST, soft, 0)
            linked -= times * (same_target @ own @ same_source)
            of_sources -= times * (own.sum(0) @ same_source)
            of_targets -= times * (same_target @ own.sum(1, keepdims=True))
        to_target = _gain(linked, of_sources, share_of_targets)
        to_source = _gain(linked, of_targets, share_of_sources)
        return (to_target + to_source) / 2

    def _counts(self, source: Sequence[str], target: Sequence[str]) -> list[np.ndarray]:
        """n(s, t), (T, S); n(s), (S,); n(t), (T, 1)."""
        linked = [self.links.get((s, t), 0.0) for t in target for s in source]
        of_sources = [self.sources.get(word, 0.0) for word in source]
        of_targets = [self.targets.get(word, 0.0) for word in target]
        shape = (len(target), len(source))
        return [
            np.array(linked, dtype=float).reshape(shape),
            np.array(of_sources, dtype=float),
            np.array(of_targets, dtype=float)[:, None],
        ]

    def as_json(self) -> dict[str, Any]:
        """The counts; sums of them are taken anew, in the same order, when they are read."""
        links = [[source, target, count] for (source, target), count in self.links.items()]
        return {"links": links, "pairs": list(self.pairs.items())}

    @classmethod
    def from_json(cls, contents: dict[str, Any]) -> Lexicon:
        """Reads what :meth:`as_json` has made."""
        lexicon = cls()
        for source, target, count in contents["links"]:
            if not count > 0:
                raise ValueError("a link that was not counted")
            lexicon._count(source, target, count)
        for pair, times in contents["pairs"]:
            lexicon.pairs[pair] += times
        return lexicon


def _same(words: Sequence[str]) -> np.ndarray:
    """1 where two places have the same word, (N, N)."""
    return np.array([[float(one == other) for other in words] for one in words]).reshape(
        len(words), len(words)
    )


def _gain(linked: np.ndarray, given: np.ndarray, share: np.ndarray) -> np.ndarray:
    """log (n + β u) / ((N + β) u): what the links of one word say of the other."""
    # Sums of floats, less one of their terms, may be a little below 0.
    linked, given = np.maximum(linked, 0), np.maximum(given, 0)
    return np.log((linked + SMOOTHING * share) / ((given + SMOOTHING) * share))


def _fingerprint(source: Sequence[str], target: Sequence[str]) -> int:
    """64 bits that tell a pair of sentences from others."""
    text = " ".join(source) + "\n" + " ".join(target)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
