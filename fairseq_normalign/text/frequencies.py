"""How frequent tokens are in the training data."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import name_of, read_lines, split_words
from fairseq_normalign.strict_json import decimal

KNOWN = 0.5  # share of the corpus's tokens that a list of frequencies must have


def read_frequencies(path: str) -> dict[str, float]:
    """A file of lines ``word count``, each word once; counts are finite and not negative."""
    counts: dict[str, float] = {}
    for number, line in enumerate(read_lines(path), 1):
        fields = split_words(line)
        if not fields:
            continue
        where = f"{name_of(path)}:{number}"
        try:
            word, digits = fields
            count = decimal(digits)
        except ValueError:
            raise InputError(
                f"{where}: found {line.strip()[:40]!r}; expected a word and its count, 0 or more"
            ) from None
        if word in counts:
            raise InputError(f"{where}: {word!r} comes again; expected each word once")
        counts[word] = count
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
        columns = [*zip(*sentences, strict=True)]
        of_pieces, of_words = map(self._known, columns or [(), ()])
        if max(of_pieces, of_words) < KNOWN:
            raise InputError(
                f"{name}: has {of_pieces:.0%} of its pieces and {of_words:.0%} of its words of the "
                "corpus; are they of another vocabulary?"
            )
        self.of_words = of_words > of_pieces

    def _known(self, sentences: Iterable[Sequence[str]]) -> float:
        """The share of the tokens of some sentences that were counted."""
        tokens = list(itertools.chain.from_iterable(sentences))
        return sum(token in self.counts for token in tokens) / max(1, len(tokens))

    def __call__(self, pieces: Sequence[str], words: Sequence[str]) -> list[float]:
        """The frequency of each piece of a sentence."""
        tokens = words if self.of_words else pieces
        return [self.counts.get(token, 0.0) for token in tokens]

    def bar(self, top: int) -> float:
        """The frequency that a token must be below to be outside the ``top`` most frequent ones."""
        if not top:
            return float("inf")
        ordered = sorted(self.counts.values(), reverse=True)
        return ordered[min(top, len(ordered)) - 1]
