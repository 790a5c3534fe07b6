"""Punctuation at the end of sentences, which attention links badly.

Full stops are where attention goes that has nothing else to look at: a rule links them better.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np


def is_punctuation(word: str) -> bool:
    """Whether a word has punctuation alone, of any script: Unicode's categories P…"""
    categories = map(unicodedata.category, word)
    return word != "" and all(category.startswith("P") for category in categories)


def final_punctuation(text: Sequence[str], word_of: Sequence[int]) -> list[int]:
    """The places of the pieces of a sentence's last word, if it is punctuation; none otherwise.

    Args:
        text: the words.
        word_of: the word of each token, -1 for special tokens.
    """
    if not text or not is_punctuation(text[-1]):
        return []
    last = len(text) - 1
    return [place for place, word in enumerate(word_of) if word == last]


def settle_punctuation(soft: np.ndarray, rows: Sequence[int], columns: Sequence[int]) -> np.ndarray:
    """What Shift-Att does with the full stop of the source (Chen et al., 2020, their code).

    If both sentences end in punctuation, the two ends take each other, and nothing else takes the
    source's. If the source alone does, nothing takes it.

    Differs from their code: an end is a word, which may have several pieces; theirs is a piece.

    Args:
        soft: (T, S).
        rows: of the target's final punctuation, perhaps none.
        columns: of the source's.
    """
    settled = soft.copy()
    if not columns:
        return settled
    settled[:, columns] = 0
    if rows:
        settled[rows, :] = 0
        settled[np.ix_(rows, columns)] = 1 / len(columns)
    return settled
