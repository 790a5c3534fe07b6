"""Scores by kind of link: by distance and frequency of its words, and by length of its sentence."""

from __future__ import annotations

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Sequence

from fairseq_normalign.alignment.aer import Counts
from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import Gold, Link

FREQUENCIES = (0, 1, 10, 100, 1000, 10000)
FROM = {  # where each band begins
    "distance": (0, 1, 2, 4, 8, 16),
    "length": (1, 11, 21, 31, 41, 61),
    "source-frequency": FREQUENCIES,
    "target-frequency": FREQUENCIES,
}
KINDS = tuple(FROM)


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

    def _band(self, link: Link, *texts: Sequence[str]) -> int:
        """The number of a link's band."""
        if self.kind == "distance":
            value = abs(link[0] - link[1])
        elif self.kind == "length":
            value = len(texts[0])
        else:
            side = ("source-frequency", "target-frequency").index(self.kind)
            value = self.frequencies[texts[side][link[side]]]
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


def check_bounds(
    names: Sequence[str],
    source: str | None,
    target: str | None,
    number: int,
    gold: Gold,
    columns: Sequence,
) -> None:
    """A watcher that refuses links outside the sentence: the text is not the one that was aligned.

    Args:
        names: of the files of links, gold first.
        source: the file of the source text, if it is read.
        target: the same of the target.
    """
    systems = len(names) - 1
    texts = [(side, name) for side, name in enumerate((source, target)) if name]
    for name, links in zip(names, [gold.possible, *columns[:systems]], strict=True):
        for (side, text), words in zip(texts, columns[systems:], strict=True):
            last = max((link[side] for link in links), default=-1)
            if last >= len(words):
                raise InputError(
                    f"{name}:{number}: links word {last + 1} of {len(words)} in {text}:{number}; "
                    "is this the tokenised text that was aligned, and are index and order of the "
                    "links right?"
                )
