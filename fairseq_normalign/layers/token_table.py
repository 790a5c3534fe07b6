"""All tokens of a text as arrays, however a model reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fairseq_normalign.errors import InputError

if TYPE_CHECKING:
    from fairseq_normalign.attention.states import States
    from fairseq_normalign.host.pairs import Pair, PairReader
    from fairseq_normalign.host.teacher_forcing import TeacherForcing

BOUNDARY = -1  # as NONE of ``layers.geometry``: before the first and after the last token


class ReadText(NamedTuple):
    """A model that is ready to show its states, and a text as it reads it."""

    name: str
    states: States
    reader: PairReader
    pairs: Sequence[Pair]

    @property
    def forcing(self) -> TeacherForcing:
        return self.states.forcing

    @property
    def side(self) -> str:
        return "source" if self.states.reads_source else "target"

    def places(self, pair: Pair) -> list[int]:
        """Where the model reads the pieces that belong to words."""
        words = self.states.words(pair)
        return [place for place, word in enumerate(words) if word >= 0]

    def pieces(self, pair: Pair) -> list[str]:
        """These pieces."""
        read = self.states.tokens(pair)
        return self.reader.symbols([read[place] for place in self.places(pair)], self.side)


class Tokens(NamedTuple):
    """The pieces of a text's words in their order, (N,) each.

    Those of unknown pieces are left out, unless it is said otherwise.
    """

    symbols: np.ndarray  # the piece
    texts: np.ndarray  # the word that it belongs to
    types: np.ndarray  # the number of the piece among those of the text, from 0
    sentences: np.ndarray
    positions: np.ndarray  # among the pieces of the sentence, from 0
    words: np.ndarray  # the word of the sentence, from 0
    left: np.ndarray  # the type before it in the sentence, or BOUNDARY
    right: np.ndarray

    @property
    def text_words(self) -> np.ndarray:
        """The word of each among all words of the text that have a token, from 0."""
        places = np.stack([self.sentences, self.words])
        differs = np.diff(places, prepend=-1).any(0)  # from the one before
        return np.cumsum(differs) - 1


def tokens_of(text: ReadText, *, unknown_too: bool = False) -> Tokens:
    """The tokens of a text."""
    numbers: dict[str, int] = {}
    symbols: list[str] = []
    texts: list[str] = []
    of_sentences = [np.empty((6, 0), dtype=np.int64)]
    for sentence, pair in enumerate(text.pairs):
        pieces = text.pieces(pair)
        words = [word for word in text.states.words(pair) if word >= 0]
        symbols += pieces
        texts += [text.states.sentence(pair).text[word] for word in words]
        types = [numbers.setdefault(piece, len(numbers)) for piece in pieces]
        count = len(types)
        around = [BOUNDARY, *types, BOUNDARY]
        columns = (types, [sentence] * count, range(count), words, around[:count], around[2:])
        of_sentences.append(np.array(columns, dtype=np.int64))
    table = np.concatenate(of_sentences, axis=1)
    dictionary = getattr(text.reader, text.side).dictionary
    (unknown,) = text.reader.symbols([dictionary.unk()], text.side)
    known = (table[0] != numbers.get(unknown, BOUNDARY)) | unknown_too
    strings = [np.array(column, dtype=object)[known] for column in (symbols, texts)]
    return Tokens(*strings, *table[:, known])


def check_same_pieces(first: ReadText, other: ReadText) -> None:
    """Refuses two models that split a text in different ways."""
    pairs = zip(first.pairs, other.pairs, strict=True)
    for number, (pair, other_pair) in enumerate(pairs, 1):
        ours, theirs = " ".join(first.pieces(pair)), " ".join(other.pieces(other_pair))
        if ours != theirs:
            raise InputError(
                f"sentence {number}: {first.name} reads {ours[:40]!r} and {other.name} "
                f"{theirs[:40]!r}; the models must read the same pieces"
            )
