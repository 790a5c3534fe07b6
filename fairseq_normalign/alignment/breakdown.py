"""Scores by kind of link: by distance and frequency of its words, and by length of its sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from fairseq_normalign.alignment.aer import Counts, count
from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import Gold, Link, PackedGold, unpack

KINDS = ("distance", "length", "source-frequency", "target-frequency")
FROM = {  # where each band begins
    "distance": (0, 1, 2, 4, 8, 16),
    "length": (1, 11, 21, 31, 41, 61),
    "source-frequency": (0, 1, 10, 100, 1000, 10000),
    "target-frequency": (0, 1, 10, 100, 1000, 10000),
}


def word_counts(sentences: Iterable[Sequence[str]]) -> Counter:
    """How often each word occurs."""
    counts: Counter = Counter()
    for words in sentences:
        counts.update(words)
    return counts


class Breakdown:
    """Counts by band of one kind, for each system.

    A watcher for ``aer.score``, which reads the source and target texts beside.

    A hypothesis link and a gold link each count in the band they belong to themselves.

    Args:
        kind: one of ``KINDS``.
        systems: how many systems there are.
        frequencies: counts of words, for the two kinds that need them.
    """

    def __init__(self, kind: str, systems: int, frequencies: Counter | None = None) -> None:
        self.kind, self.frequencies = kind, frequencies or Counter()
        self.counts: list[dict[int, Counts]] = [{} for _ in range(systems)]

    def __call__(self, number: int, gold: PackedGold, columns: Sequence) -> None:
        systems = columns[: len(self.counts)]
        texts = columns[len(self.counts) :]
        band_of = self._banding(*texts)
        sure = _by_band(unpack(gold.sure), band_of)
        possible = _by_band(unpack(gold.possible), band_of)
        for totals, packed in zip(self.counts, systems, strict=True):
            links = _by_band(unpack(packed), band_of)
            for band in {*links, *possible}:
                gold_part = Gold(sure.get(band, set()), possible.get(band, set()))
                counts = count(links.get(band, set()), gold_part)
                totals[band] = totals.get(band, Counts()) + counts

    def _banding(
        self, source: Sequence[str] = (), target: Sequence[str] = ()
    ) -> Callable[[Link], int]:
        """The function that says the band of a link in this sentence pair."""
        starts, counts = FROM[self.kind], self.frequencies
        values: dict[str, Callable[[Link], int]] = {
            "distance": lambda link: abs(link[0] - link[1]),
            "length": lambda link: len(source),
            "source-frequency": lambda link: counts[source[link[0]]],
            "target-frequency": lambda link: counts[target[link[1]]],
        }
        value = values[self.kind]
        return lambda link: max(start for start in starts if start <= value(link))

    def table(self, system: int) -> list[tuple[str, Counts]]:
        """Label and counts of each band that has links."""
        return [
            (_label(self.kind, start), counts)
            for start, counts in sorted(self.counts[system].items())
        ]


def _by_band(links: Iterable[Link], band_of: Callable[[Link], int]) -> dict[int, set[Link]]:
    parts: dict[int, set[Link]] = {}
    for link in links:
        parts.setdefault(band_of(link), set()).add(link)
    return parts


def _label(kind: str, start: int) -> str:
    following = [other for other in FROM[kind] if other > start]
    if not following:
        return f"{start}+"
    end = following[0] - 1
    return str(start) if end == start else f"{start}–{end}"


class BoundsCheck:
    """A watcher that refuses links outside the sentence.

    Where there are any, the text is not the text that was aligned.
    """

    def __init__(
        self, names: Sequence[str], source_name: str | None, target_name: str | None
    ) -> None:
        self.names = names  # gold first, then the systems
        texts = (source_name, target_name)
        self.texts = [name for name in texts if name]
        self.sides = [side for side, name in enumerate(texts) if name]

    def __call__(self, number: int, gold: PackedGold, columns: Sequence) -> None:
        systems = len(self.names) - 1
        all_links = [gold.possible, *columns[:systems]]
        for name, packed in zip(self.names, all_links, strict=True):
            links = unpack(packed)
            for side, text, words in zip(self.sides, self.texts, columns[systems:], strict=True):
                last = max((link[side] for link in links), default=-1)
                if last >= len(words):
                    raise InputError(
                        f"{name}:{number}: links word {last + 1} of {len(words)} in "
                        f"{text}:{number}; expected the tokenised text that was aligned (or "
                        "another index base or direction)"
                    )
