"""Scores by kind of link: by distance and frequency of its words, and by length of its sentence."""

from __future__ import annotations

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Sequence

from fairseq_normalign.alignment.aer import Counts
from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import Gold, Link

KINDS = ("distance", "length", "source-frequency", "target-frequency")
FREQUENCIES = (0, 1, 10, 100, 1000, 10000)
FROM = {  # where each band begins
    "distance": (0, 1, 2, 4, 8, 16),
    "length": (1, 11, 21, 31, 41, 61),
    "source-frequency": FREQUENCIES,
    "target-frequency": FREQUENCIES,
}


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
        self.counts: list[dict[int, Counts]] = [defaultdict(Counts) for _ in range(systems)]

    def __call__(self, number: int, gold: Gold, columns: Sequence) -> None:
        systems = len(self.counts)
        texts = columns[systems:]
        for totals, links in zip(self.counts, columns[:systems], strict=True):
            for link in links:
                right = Counts(1, 0, link in gold.possible, link in gold.sure)
                totals[self._band(link, *texts)] += right
            for link in gold.possible:
                totals[self._band(link, *texts)] += Counts(sure=link in gold.sure)

    def _band(self, link: Link, source: Sequence[str] = (), target: Sequence[str] = ()) -> int:
        """The number of a link's band."""
        if self.kind == "distance":
            value = abs(link[0] - link[1])
        elif self.kind == "length":
            value = len(source)
        elif self.kind == "source-frequency":
            value = self.frequencies[source[link[0]]]
        else:
            value = self.frequencies[target[link[1]]]
        return bisect(FROM[self.kind], value) - 1

    def table(self, system: int) -> dict[str, Counts]:
        """Label and counts of each band that has links."""
        bands = sorted(self.counts[system].items())
        return {_label(FROM[self.kind], band): counts for band, counts in bands}


def _label(starts: Sequence[int], band: int) -> str:
    start = starts[band]
    if band == len(starts) - 1:
        return f"{start}+"
    last = starts[band + 1] - 1
    return str(start) if last == start else f"{start}–{last}"


class BoundsCheck:
    """A watcher that refuses links outside the sentence.

    Where there are any, the text is not the text that was aligned.
    """

    def __init__(
        self, names: Sequence[str], source_name: str | None, target_name: str | None
    ) -> None:
        self.names = names  # gold first, then the systems
        texts = enumerate((source_name, target_name))
        self.texts = [(side, name) for side, name in texts if name]

    def __call__(self, number: int, gold: Gold, columns: Sequence) -> None:
        systems = len(self.names) - 1
        all_links = [gold.possible, *columns[:systems]]
        for name, links in zip(self.names, all_links, strict=True):
            for (side, text), words in zip(self.texts, columns[systems:], strict=True):
                last = max((link[side] for link in links), default=-1)
                if last >= len(words):
                    raise InputError(
                        f"{name}:{number}: links word {last + 1} of {len(words)} in "
                        f"{text}:{number}; is this the tokenised text that was aligned, and are "
                        "index and order of the links right?"
                    )
