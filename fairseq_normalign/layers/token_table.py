"""A text as one part of a model reads it, and all of its tokens as arrays."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fairseq_normalign.attention.states import States
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import short_names
from fairseq_normalign.host.lengths import fitted
from fairseq_normalign.host.options import load
from fairseq_normalign.host.pairs import Pair, PairReader, text_pairs
from fairseq_normalign.host.raw_corpus import corpus
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

    def at(self, places: np.ndarray) -> Tokens:
        """Those at some places."""
        return Tokens(*(column[places] for column in self))

    @property
    def text_words(self) -> np.ndarray:
        """The word of each among all words of the text that have a token, from 0."""
        places = np.stack([self.sentences, self.words])
        differs = np.diff(places, prepend=-1).any(0)  # from the one before
        return np.cumsum(differs) - 1


def tokens_of(text: ReadText, *, unknown_too: bool = False) -> Tokens:
    """The tokens of a text."""
    dictionary = getattr(text.reader, text.side).dictionary
    (unknown,) = text.reader.symbols([dictionary.unk()], text.side)
    numbers: dict[str, int] = {}
    rows = []
    for sentence, pair in enumerate(text.pairs):
        pieces = text.pieces(pair)
        words = [word for word in text.states.words(pair) if word >= 0]
        spelled = text.states.sentence(pair).text
        types = [numbers.setdefault(piece, len(numbers)) for piece in pieces]
        around = [BOUNDARY, *types, BOUNDARY]
        read = zip(pieces, types, words, strict=True)
        for place, (piece, number, word) in enumerate(read):
            if unknown_too or piece != unknown:
                left, right = around[place], around[place + 2]
                rows.append((piece, spelled[word], number, sentence, place, word, left, right))
    columns = np.array(rows, dtype=object).reshape(-1, len(Tokens._fields)).T
    return Tokens(*columns[:2], *columns[2:].astype(np.int64))


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


def load_part(args: argparse.Namespace, name: str, path: str, part: str | None = None) -> ReadText:
    """A part of the model of ``path``, by default its encoder, or else its decoder; no text yet."""
    of_one = argparse.Namespace(**{**vars(args), "path": path})
    forcing, reader = load(of_one, attention=part or "all")
    if forcing.attention == "cross":  # a model with both parts
        forcing = TeacherForcing(forcing.model, reader.task, attention="encoder")
    return ReadText(name, States(forcing), reader, [])


def read_corpus(args: argparse.Namespace) -> list[ReadText]:
    """The first sentences of the corpus that the options name, as each model reads them."""
    models = zip(short_names(args.path), args.path, strict=True)
    parts = [load_part(args, name, path, args.part) for name, path in models]
    need_target = not all(part.states.reads_source for part in parts)
    same_way = [False] * len(parts)
    read = corpus(args, parts, swapped=same_way, need_target=need_target, limit=args.limit)
    streams = zip(parts, read.streams, strict=True)
    return [part._replace(pairs=list(pairs)) for part, pairs in streams]


def read_sentences(
    args: argparse.Namespace, name: str, path: str, sentences: Sequence[Sequence[str]]
) -> ReadText:
    """Sentences of words as a model reads them that needs no target."""
    part = load_part(args, name, path)
    pairs = text_pairs(((words, None) for words in sentences), part.reader, name="treebank")
    return part._replace(pairs=fitted(pairs, part.forcing.limits, args.too_long))
