"""What speaks for a link beside attention: the corpus, neighbours, spelling and position.

Each clue is a matrix (T, S) for a pair of sentences, higher where a link is likelier.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairseq_normalign.alignment.lexicon import Lexicon

CLUES = ("lexicon", "neighbours", "identical", "position")
LEAST_NEIGHBOURS = 0.01  # a neighbourhood without links should not forbid one


def clues(
    source: Sequence[str], target: Sequence[str], soft: np.ndarray, lexicon: Lexicon
) -> np.ndarray:
    """All clues of a pair, (4, T, S), in the order of ``CLUES``.

    Args:
        soft: the probabilities of links that are known so far, (T, S).
    """
    return np.stack(
        [
            lexicon.association(source, target, soft),
            neighbours(soft),
            identical(source, target),
            position(*soft.shape),
        ]
    )


def neighbours(soft: np.ndarray) -> np.ndarray:
    """log of the mean probability of the links (t − 1, s − 1) and (t + 1, s + 1)."""
    padded = np.pad(soft, 1)
    return np.log((padded[:-2, :-2] + padded[2:, 2:]) / 2 + LEAST_NEIGHBOURS)


def identical(source: Sequence[str], target: Sequence[str]) -> np.ndarray:
    """1 where both words are the same string: numbers, names, punctuation."""
    same = [[float(s == t) for s in source] for t in target]
    return np.array(same).reshape(len(target), len(source))


def position(targets: int, sources: int) -> np.ndarray:
    """−|t/T − s/S|, words being taken at their middle."""
    rows = (np.arange(targets) + 0.5) / max(targets, 1)
    columns = (np.arange(sources) + 0.5) / max(sources, 1)
    return -np.abs(rows[:, None] - columns)
