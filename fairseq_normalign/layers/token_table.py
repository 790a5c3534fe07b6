"""All tokens of a text as arrays, however a model reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fairseq_normalign.errors import InputError

if TYPE_CHECKING:
    from fairseq_normalign.attention.states import States
    from fairseq_normalign.host.pairs import Pair, PairReader

BOUNDARY = -1  # as NONE of ``layers.geometry``: before the first and after the last token


class ReadText(NamedTuple):
    """A model that is ready to show its states, and a text as it reads it."""

    name: str
    states: States
    reader: PairReader
    pairs: Sequence[Pair]

    @property
    def side(self) -> str:
        return "source" if self.states.reads_source else "target"

    def pieces(self, pair: Pair) -> list[str]:
        """The pieces that belong to words, as they are read."""
        read = self.states.tokens(pair)
        tokens = [read[place] for place in self.places(pair)]
        return self.reader.symbols(tokens, self.side)

    def places(self, pair: Pair) -> list[int]:
        """Where the model reads them."""
        words = self.states.words(pair)
        return [place for place, word in enumerate(words) if word >= 0]

    def piece_words(self, pair: Pair) -> list[int]:
        """The word of each of them, from 0."""
        return [word for word in self.states.words(pair) if word >= 0]

    def text(self, pair: Pair) -> list[str]:
        """The words themselves."""
        return self.states.sentence(pair).text

    @property
    def unknown(self) -> str:
        """What pieces that the dictionary lacks are called."""
        dictionary = getattr(self.reader, self.side).dictionary
        return self.reader.symbols([dictionary.unk()], self.side)[0]

    @property
    def dictionary_counts(self) -> dict[str, float]:
        """How often pieces were in the training data, by the dictionary."""
        return dict(getattr(self.reader, self.side).vocabulary.counts)


class Tokens(NamedTuple):
    """The pieces of a text's words in their order, those of unknown pieces left out; (N,) each."""

    symbols: list[str]  # by type
    types: np.ndarray
    sentences: np.ndarray
    positions: np.ndarray  # among the pieces of the sentence, from 0
    words: np.ndarray  # the word of the sentence, from 0
    left: np.ndarray  # the type before it in the sentence, or BOUNDARY
    right: np.ndarray


def tokens_of(text: ReadText) -> Tokens:
    """The tokens of a text."""
    numbers: dict[str, int] = {}
    of_sentences = [np.empty((6, 0), dtype=np.int64)]
    for sentence, pair in enumerate(text.pairs):
        types = [numbers.setdefault(piece, len(numbers)) for piece in text.pieces(pair)]
        count = len(types)
        around = [BOUNDARY, *types, BOUNDARY]
        columns = (
            types,
            [sentence] * count,
            range(count),
            text.piece_words(pair),
            around[:count],
            around[2:],
        )
        of_sentences.append(np.array(columns, dtype=np.int64))
    columns_of_text = np.concatenate(of_sentences, axis=1)
    known = columns_of_text[0] != numbers.get(text.unknown, BOUNDARY)
    return Tokens(list(numbers), *columns_of_text[:, known])


def check_same_pieces(first: ReadText, other: ReadText) -> None:
    """Refuses two models that split a text in different ways."""
    pairs = zip(first.pairs, other.pairs, strict=True)
    for number, (pair, other_pair) in enumerate(pairs, 1):
        pieces, other_pieces = first.pieces(pair), other.pieces(other_pair)
        if pieces != other_pieces:
            raise InputError(
                f"sentence {number}: {first.name} reads {_short(pieces)} and {other.name} "
                f"{_short(other_pieces)}; expected models that read the same pieces"
            )


def _short(pieces: Sequence[str]) -> str:
    """The first pieces of a sentence, for a message."""
    text = " ".join(pieces)
    return repr(text if len(text) <= 40 else text[:39] + "…")
