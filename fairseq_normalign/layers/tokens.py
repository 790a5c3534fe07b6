"""What is known of the tokens of a batch: the category and the frequency rank of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_normalign.heads.attention_pass import PADDING, read_words
from fairseq_normalign.host.pairs import Pair, PairReader, Sentence, Side
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.layers.categories import Categories, Token
from fairseq_normalign.layers.ranks import RankByCount, Ranks, rank_by_id
from fairseq_normalign.text.frequencies import Frequencies
from fairseq_normalign.text.words import without_mark

MARK = -1  # in the place of a word: special tokens


class TokenBatch(NamedTuple):
    """The tokens of one side of a batch, padded on the right."""

    categories: Tensor  # from 0; -1 for padding, (B, T)
    ranks: Tensor  # 1 is the most frequent; nan for padding and what is left out, (B, T)
    special: Tensor  # belongs to no word, (B, T)


class TokenTable:
    """Looks up the tokens of one side, each kind of token once."""

    def __init__(self, side: Side, categories: Categories, ranks: Ranks):
        self.side, self.categories, self.ranks = side, categories, ranks
        self._tokens: dict[tuple[int, bool, bool], tuple[Token, int]] = {}

    def token(self, index: int, is_special: bool, continues: bool) -> tuple[Token, int]:
        """A token and its category."""
        key = index, is_special, continues
        if key not in self._tokens:
            (symbol,) = self.side.symbols([index])
            letters = without_mark(symbol, self.side.segmentation.scheme)
            token = Token(index, symbol, letters, is_special, continues)
            self._tokens[key] = token, self.categories.index(token)
        return self._tokens[key]

    def batch(self, ids: Tensor, words: Tensor, sentences: Sequence[Sentence]) -> TokenBatch:
        """The tokens of a batch.

        Args:
            ids: what the model reads, (B, T).
            words: the word of each token, -1 for special ones, -2 for padding, (B, T).
            sentences: that the words are of.
        """
        categories, ranks = [], []
        for of_ids, of_words, sentence in zip(ids.tolist(), words.tolist(), sentences, strict=True):
            known = self._known(of_ids, of_words, sentence)
            categories.append([category for category, _ in known])
            ranks.append([rank for _, rank in known])
        return TokenBatch(torch.tensor(categories), torch.tensor(ranks), words == MARK)

    def _known(
        self, ids: Sequence[int], words: Sequence[int], sentence: Sentence
    ) -> list[tuple[int, float]]:
        """The category and the rank of each token of a sentence."""
        known = []
        before = PADDING
        for index, word in zip(ids, words, strict=True):
            if word == PADDING:
                known.append((-1, float("nan")))
                continue
            token, category = self.token(index, word == MARK, word >= 0 and word == before)
            text = token.symbol if word == MARK else sentence.text[word]
            known.append((category, self.ranks(token, text)))
            before = word
        return known


def token_batches(
    forcing: TeacherForcing, tables: Mapping[str, TokenTable], pairs: Sequence[Pair]
) -> dict[str, TokenBatch]:
    """The tokens of a batch on each side that has a table: source, target."""
    source, target, _ = forcing.tensors(pairs)
    batches = {}
    for side, table in tables.items():
        side_of_pair = text_side(forcing, side)
        ids = source if side_of_pair == "source" else target
        sentences = [getattr(pair, side_of_pair) for pair in pairs]
        words = read_words(pairs, side_of_pair)
        batches[side] = table.batch(ids.cpu(), words, sentences)
    return batches


def text_side(forcing: TeacherForcing, side: str) -> str:
    """Where the text of a side is in pairs: a language model's decoder reads their source."""
    return "source" if forcing.is_language_model else side


def ranks_of(
    side: Side, source: str, counts: Mapping[str, float] | None, *, of_words: bool
) -> Ranks:
    """Frequency ranks of the tokens of one side.

    Args:
        source: ``ids`` or ``counts``, where no counts are given: of the dictionary.
        counts: of pieces or words.
        of_words: which of them.
    """
    if counts is None and source == "ids":
        return rank_by_id
    return RankByCount(side.vocabulary.counts if counts is None else counts, of_words=of_words)


def are_of_words(
    side: Side, counts: Mapping[str, float], name: str, sentences: Sequence[Sentence]
) -> bool:
    """Whether counts are of words rather than of pieces, by some sentences of the corpus.

    Args:
        name: of their file, for messages.
    """
    spelled = [_spelled(side, sentence) for sentence in sentences]
    return Frequencies(counts, name, spelled).of_words


def _spelled(side: Side, sentence: Sentence) -> tuple[list[str], list[str]]:
    """The pieces of a sentence, and the word that each is of."""
    words = [sentence.text[word] for word in sentence.words if word >= 0]
    return side.pieces(sentence), words


def vocabulary(reader: PairReader, sides: Sequence[str]) -> list[str]:
    """All symbols of the dictionaries of some sides, special ones included."""
    of_sides = []
    for name in sides:
        side: Side = getattr(reader, name)
        of_sides.append(side.symbols(range(len(side.dictionary))))
    return list(chain.from_iterable(of_sides))
