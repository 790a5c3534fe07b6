"""How often the words of a corpus are linked with each other, and what that says of a pair.

Counts are expected ones: a cell whose link has probability 0.3 counts 0.3.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import DAMAGED_ARCHIVE, whole_file

LEAST = 0.01  # cells below do not count: they would fill the memory and say nothing
FORMAT = "normalign lexicon 1"
PARALLEL = (("source", "target", "count"), ("pair", "times"))
ARRAYS = ("format", "sources", "targets", *PARALLEL[0], *PARALLEL[1])
KINDS = {"sources": "u", "targets": "u", "source": "i", "target": "i", "count": "f"}
KINDS |= {"pair": "u", "times": "i"}
SMOOTHING = 2.0  # links that each word is given beforehand, by how frequent the others are


class Lexicon:
    """Expected numbers of links between words, and the pairs that they were counted in.

    A pair should not be a witness in its own case. So the lexicon remembers which pairs it was
    counted in, by a hash, and leaves out what a pair has contributed itself.
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
        linked = _matrix(self.links, source, target)
        of_sources = _column(self.sources, source)
        of_targets = _column(self.targets, target)
        share_of_sources = self._shares(of_sources, self.sources)
        share_of_targets = self._shares(of_targets, self.targets)
        times = self.pairs[_fingerprint(source, target)]
        if times:
            own = Lexicon()
            own.add(source, target, soft)
            linked -= times * _matrix(own.links, source, target)
            of_sources = of_sources - times * _column(own.sources, source)
            of_targets = of_targets - times * _column(own.targets, target)
        to_target = _gain(linked, of_sources, share_of_targets[:, None])
        to_source = _gain(linked, of_targets[:, None], share_of_sources)
        return (to_target + to_source) / 2

    def _shares(self, counts: np.ndarray, of_all: dict[str, float]) -> np.ndarray:
        """u: the share that each word has of all links, with half a link for each word."""
        return (counts + 0.5) / (self.total + 0.5 * (len(of_all) + 1))

    def write(self, path: str) -> None:
        """Writes a NumPy archive, whole or not at all."""
        sources, targets = list(self.sources), list(self.targets)
        source_places = {word: place for place, word in enumerate(sources)}
        target_places = {word: place for place, word in enumerate(targets)}
        arrays: dict[str, Any] = {
            "format": np.array(FORMAT),
            "sources": _packed(sources),
            "targets": _packed(targets),
            "source": np.array([source_places[s] for s, _ in self.links], dtype=np.int32),
            "target": np.array([target_places[t] for _, t in self.links], dtype=np.int32),
            "count": np.array(list(self.links.values())),
            "pair": np.array(list(self.pairs), dtype=np.uint64),
            "times": np.array(list(self.pairs.values()), dtype=np.int64),
        }
        with whole_file(path, binary=True) as file:
            np.savez_compressed(file, **arrays)

    def as_json(self) -> dict[str, Any]:
        """The counts; sums of them are taken anew, in the same order, when they are read."""
        links = [[source, target, count] for (source, target), count in self.links.items()]
        return {"links": links, "pairs": list(self.pairs.items())}

    @classmethod
    def from_json(cls, contents: dict[str, Any]) -> Lexicon:
        """Reads what :meth:`as_json` has made."""
        lexicon = cls()
        for source, target, count in contents["links"]:
            lexicon._count(source, target, count)
        for pair, times in contents["pairs"]:
            lexicon.pairs[pair] += times
        return lexicon

    @classmethod
    def read(cls, path: str) -> Lexicon:
        """Reads what :meth:`write` wrote. Nothing in the file is run."""
        arrays = _arrays(path)
        lexicon = cls()
        sources, targets = _unpacked(arrays["sources"]), _unpacked(arrays["targets"])
        links = zip(arrays["source"], arrays["target"], arrays["count"].tolist(), strict=True)
        for source, target, count in links:
            lexicon._count(sources[source], targets[target], count)
        times = zip(arrays["pair"].tolist(), arrays["times"].tolist(), strict=True)
        lexicon.pairs.update(dict(times))
        return lexicon


def _gain(linked: np.ndarray, given: np.ndarray, share: np.ndarray) -> np.ndarray:
    """log (n + β u) / ((N + β) u): what the links of one word say of the other."""
    # Sums of floats, less one of their terms, may be a little below 0.
    linked, given = np.maximum(linked, 0), np.maximum(given, 0)
    return np.log((linked + SMOOTHING * share) / ((given + SMOOTHING) * share))


def _matrix(
    links: dict[tuple[str, str], float], source: Sequence[str], target: Sequence[str]
) -> np.ndarray:
    """n(s, t) of all words of a pair, (T, S)."""
    rows = [[links.get((s, t), 0.0) for s in source] for t in target]
    return np.array(rows, dtype=float).reshape(len(target), len(source))


def _column(counts: dict[str, float], words: Sequence[str]) -> np.ndarray:
    return np.array([counts.get(word, 0.0) for word in words], dtype=float)


def _fingerprint(source: Sequence[str], target: Sequence[str]) -> int:
    """64 bits that tell a pair of sentences from others."""
    text = " ".join(source) + "\n" + " ".join(target)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _packed(words: Sequence[str]) -> np.ndarray:
    """Words, none of which has a line break, as bytes."""
    return np.frombuffer("\n".join(words).encode("utf-8", "surrogatepass"), dtype=np.uint8)


def _unpacked(array: np.ndarray) -> list[str]:
    return array.tobytes().decode("utf-8", "surrogatepass").split("\n")


def _arrays(path: str) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in ARRAYS}
    except FileNotFoundError:
        raise
    except DAMAGED_ARCHIVE:
        raise _not_a_lexicon(path) from None
    if not _is_sound(arrays):
        raise _not_a_lexicon(path)
    return arrays


def _is_sound(arrays: dict[str, np.ndarray]) -> bool:
    """Whether the arrays have the shapes, kinds and ranges that a lexicon's have."""
    if arrays["format"].shape or arrays["format"] != FORMAT:
        return False
    for names in PARALLEL:
        if len({arrays[name].shape for name in names}) > 1 or arrays[names[0]].ndim != 1:
            return False
    if any(arrays[name].dtype.kind not in kinds for name, kinds in KINDS.items()):
        return False
    for words, places in (("sources", "source"), ("targets", "target")):
        try:
            known = len(_unpacked(arrays[words]))
        except UnicodeDecodeError:
            return False
        if ((arrays[places] < 0) | (arrays[places] >= known)).any():
            return False
    counts = arrays["count"]
    return bool((np.isfinite(counts) & (counts > 0)).all() and (arrays["times"] > 0).all())


def _not_a_lexicon(path: str) -> InputError:
    return InputError(f"{path}: is not a lexicon; expected a file that --lexicon has written")
