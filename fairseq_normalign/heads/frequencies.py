"""How frequent tokens are in the training data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import name_of, read_lines

KNOWN = 0.5  # share of the corpus's tokens that a list of frequencies must have


def read_frequencies(path: str) -> dict[str, float]:
    """A file of lines ``word count``."""
    counts = {}
    for number, line in enumerate(read_lines(path), 1):
        fields = line.split()
        if not fields:
            continue
        try:
            word, count = fields
            counts[word] = float(count)
        except ValueError:
            raise InputError(
                f"{name_of(path)}:{number}: found {line.strip()!r}; expected a word and its count"
            ) from None
    return counts


class Frequencies:
    """Counts of pieces or of words; what was never counted has 0.

    A piece is as frequent as its word if the counts are those of words: which they are is found out
    on some sentences.

    Args:
        counts: by piece or word.
        name: where they come from, for error messages.
        sentences: some of the corpus, each as (pieces, the word of each piece).
    """

    def __init__(
        self,
        counts: Mapping[str, float],
        name: str,
        sentences: Iterable[tuple[Sequence[str], Sequence[str]]],
    ):
        if len(set(counts.values())) < 2:
            raise InputError(
                f"{name}: all counts are equal; expected how often tokens are in the training data"
            )
        self.counts, self.name = counts, name
        sides = [
            [token for side in group for token in side] for group in zip(*sentences, strict=True)
        ]
        known = [sum(token in counts for token in side) / max(1, len(side)) for side in sides]
        if not known or max(known) < KNOWN:
            shares = " and ".join(
                f"{share:.0%} of its {unit}"
                for share, unit in zip(known, ("pieces", "words")[: len(known)], strict=True)
            )
            raise InputError(
                f"{name}: has {shares or 'nothing'} of the corpus; are they of another vocabulary?"
            )
        self.of_words = known[1] > known[0]

    def __call__(self, pieces: Sequence[str], words: Sequence[str]) -> list[float]:
        """The frequency of each piece of a sentence."""
        return [self.counts.get(token, 0.0) for token in (words if self.of_words else pieces)]

    def bar(self, top: int) -> float:
        """The frequency that a token must be below to be outside the ``top`` most frequent ones."""
        ordered = sorted(self.counts.values(), reverse=True)
        return ordered[min(top, len(ordered)) - 1] if top else float("inf")
