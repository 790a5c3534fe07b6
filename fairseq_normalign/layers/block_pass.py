"""The attention blocks of a model on a batch, and the tokens that they see."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairseq_normalign.attention.block import Block
from fairseq_normalign.attention.recorder import recorded_blocks
from fairseq_normalign.heads.attention_pass import PADDING, read_words
from fairseq_normalign.host.attention_modules import attentions
from fairseq_normalign.host.pairs import Pair, Sentence, Side
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.layers.categories import Categories, Ranks, Token
from fairseq_normalign.names import KINDS
from fairseq_normalign.runs.joins import Draws, Gathered
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
        self.token = cache(self._token)

    def _token(self, index: int, is_special: bool, continues: bool) -> tuple[Token, int]:
        """A token and its category."""
        (symbol,) = self.side.symbols([index])
        letters = without_mark(symbol, self.side.segmentation.scheme)
        token = Token(index, symbol, letters, is_special, continues)
        return token, self.categories.index(token)

    def batch(self, ids: Tensor, words: Tensor, sentences: Sequence[Sentence]) -> TokenBatch:
        """The tokens of a batch, on the device of what the model reads.

        Args:
            ids: what the model reads, (B, T).
            words: the word of each token, -1 for special ones, -2 for padding, (B, T).
            sentences: that the words are of.
        """
        categories = np.full(words.shape, -1)
        ranks = np.full(words.shape, np.nan, dtype=np.float32)
        rows = zip(ids.tolist(), words.tolist(), sentences, strict=True)
        for row, (of_ids, of_words, sentence) in enumerate(rows):
            before = PADDING
            for place, (index, word) in enumerate(zip(of_ids, of_words, strict=True)):
                if word == PADDING:
                    continue
                token, category = self.token(index, word == MARK, word >= 0 and word == before)
                text = token.symbol if word == MARK else sentence.text[word]
                categories[row, place] = category
                ranks[row, place] = self.ranks(token, text)
                before = word
        known = torch.from_numpy(categories), torch.from_numpy(ranks), words == MARK
        return TokenBatch(*(of_tokens.to(ids.device) for of_tokens in known))


def add_means(sums: Gathered, name: str, values: Tensor, categories: Tensor, number: int) -> None:
    """Adds a batch to what the means of some quantities need, by category and overall.

    Args:
        values: of layers or heads, quantities and tokens, (L, Q, B, T).
        categories: of each token, from 0; -1 for padding, (B, T).
        number: of categories, K; all tokens together are one more.
    """
    of_category = categories.unsqueeze(-1) == torch.arange(number, device=categories.device)
    is_token = categories >= 0
    members = torch.cat([of_category, is_token.unsqueeze(-1)], dim=-1).double()  # (B, T, K+1)
    counts = members.sum(1)  # (B, K+1)
    by_sentence = torch.einsum("lqbt,btk->lqbk", values.double(), members)
    sums.add(f"{name}.micro.sum", by_sentence.sum(2).cpu().numpy())
    macro = (by_sentence / counts.clamp(min=1)).sum(2)
    sums.add(f"{name}.macro.sum", macro.cpu().numpy())
    sums.add(f"{name}.tokens.sum", counts.sum(0).long().cpu().numpy())
    sums.add(f"{name}.sentences.sum", counts.gt(0).sum(0).cpu().numpy())
    of_tokens = values.transpose(0, 1)[:, :, is_token].flatten(1)  # (Q, L·N)
    sums.add(f"{name}.low", of_tokens.amin(1).cpu().numpy())
    sums.add(f"{name}.high", of_tokens.amax(1).cpu().numpy())


def add_occurrences(
    sums: Gathered, name: str, columns: Sequence[Tensor], counted: Tensor, draws: Draws
) -> None:
    """Adds those tokens that count, (B, T), to a sample: what is known of each is a row."""
    rows = torch.stack([column[counted].float() for column in columns], dim=-1).cpu().numpy()
    sums.sample(name, draws(counted.sum(1).tolist()), rows.__getitem__)


def divided(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Means; nan where there is nothing."""
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def numbers(values: Iterable[float]) -> list[float | None]:
    """As tables and maps take them, which have no nan."""
    return [None if math.isnan(value) else float(value) for value in values]


class BlockBatch(NamedTuple):
    """The blocks of one kind of attention on one batch, and the tokens that they see."""

    kind: str
    number: int  # of the kind among those that are looked at, from 0
    blocks: Mapping[int, Block]  # by layer, from 0
    queries: TokenBatch
    keys: TokenBatch
    places: Sequence[str]  # what errors call each sentence
    lines: Sequence[int]  # in the corpus, from 0


def block_batches(
    forcing: TeacherForcing,
    pairs: list[Pair],
    lines: Sequence[int],
    tables: Mapping[str, TokenTable],
) -> list[BlockBatch]:
    """The blocks of all kinds of attention on some pairs, which are run together.

    Args:
        lines: of the pairs in the corpus, from 0.
        tables: of the sides that the attentions see.
    """
    source, target, _ = forcing.tensors(pairs)
    tokens = {}
    for side, name in texts_of(forcing).items():
        ids = source if name == "source" else target
        sentences = [getattr(pair, name) for pair in pairs]
        tokens[side] = tables[side].batch(ids, read_words(pairs, name), sentences)
    blocks: dict[str, dict[int, Block]] = {}
    for (kind, layer), block in recorded_blocks(forcing, pairs, running_kinds(forcing)).items():
        blocks.setdefault(kind, {})[layer] = block
    places = [pair.where for pair in pairs]
    of_kinds = []
    for number, kind in enumerate(blocks):
        seen = tokens[KINDS[kind].queries], tokens[KINDS[kind].keys]
        of_kinds.append(BlockBatch(kind, number, blocks[kind], *seen, places, lines))
    return of_kinds


def running_kinds(forcing: TeacherForcing) -> list[str]:
    """The kinds of attention that are looked at: all, or the self-attention that was asked for."""
    there = {kind for kind, _ in attentions(forcing.model)}
    if KINDS[forcing.attention].self_attention:
        there &= {forcing.attention}
    return [kind for kind in KINDS if kind in there]


def texts_of(forcing: TeacherForcing) -> dict[str, str]:
    """The sides that the attentions see, and where their text is in pairs.

    A language model's decoder reads the source.
    """
    texts = {}
    for kind in running_kinds(forcing):
        for side in (KINDS[kind].queries, KINDS[kind].keys):
            texts[side] = "source" if forcing.is_language_model else side
    return texts
