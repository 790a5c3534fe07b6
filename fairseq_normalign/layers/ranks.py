"""How frequent tokens are, as ranks: 1 is the most frequent one.

This module imports no PyTorch: ``--help`` reads it.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from typing import Protocol

from fairseq_normalign.layers.categories import Token

LEFT_OUT = math.nan
# The four tokens that count as the most frequent ones (Kobayashi et al., 2020, footnotes 5 and 6),
# which are the comma, the period, [SEP] and [CLS]; here </s> or whatever else ends or begins a
# sentence or names its language is in the place of the latter.
STOPS = {",": 1.0, ".": 2.0}
FIRST_MARKS = {"[CLS]": 4.0, "<s>": 4.0}
OTHER_MARK = 3.0
MASKS = ("<mask>", "[MASK]")  # of whose words a model sees nothing
NO_WORDS = ("<unk>", "[UNK]", *MASKS, "<pad>", "[PAD]")

SOURCES = {
    "ids": "the order of the dictionary, which is that of the tokenizer's ids",
    "counts": "the counts in the dictionary",
}


class Ranks(Protocol):
    def __call__(self, token: Token, word: str) -> float:
        """The rank of a token that is a piece of a word; nan if it is left out."""


def rank_by_id(token: Token, word: str) -> float:
    """The order of the dictionary, with the exceptions of Kobayashi et al. (2020).

    Single characters are left out, whose ids say nothing of frequency in BERT's vocabulary.
    """
    if token.symbol in NO_WORDS:
        return LEFT_OUT
    if token.is_special:
        return FIRST_MARKS.get(token.symbol, OTHER_MARK)
    if token.letters in STOPS:
        return STOPS[token.letters]
    if len(token.letters) < 2:
        return LEFT_OUT
    return len(STOPS) + 2.0 + token.number


class RankByCount:
    """The order of counts; equal counts have equal ranks. Special tokens are the most frequent.

    Args:
        counts: of pieces or of words.
        of_words: whether they are of words: a piece is as frequent as its word.
    """

    def __init__(self, counts: Mapping[str, float], *, of_words: bool = False):
        self.counts, self.of_words = counts, of_words
        self.ascending = sorted(counts.values())

    def __call__(self, token: Token, word: str) -> float:
        if token.is_special:
            return LEFT_OUT if token.symbol in NO_WORDS else 0.0
        if token.symbol in (MASKS if self.of_words else NO_WORDS):
            return LEFT_OUT
        count = self.counts.get(word if self.of_words else token.symbol, 0.0)
        more_frequent = len(self.ascending) - bisect.bisect_right(self.ascending, count)
        return 1.0 + more_frequent
