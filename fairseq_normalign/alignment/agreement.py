"""How much two alignments of the same sentences agree."""

from __future__ import annotations

from typing import AbstractSet, Sequence

import numpy as np

from fairseq_normalign.alignment.links import Link

Alignments = Sequence[AbstractSet[Link]]  # the links of each sentence pair


def agreement(first: Alignments, second: Alignments) -> float:
    """Dice coefficient of the links of a corpus, 2|A∩B| / (|A| + |B|); 0 if there are none."""
    shared = sum(len(a & b) for a, b in zip(first, second))
    total = sum(map(len, first)) + sum(map(len, second))
    return 2 * shared / total if total else 0.0


def most_agreeing(first: Sequence[Alignments], second: Sequence[Alignments]) -> tuple[int, int]:
    """The pair of candidates, one of each list, that agree most."""
    table = np.array([[agreement(a, b) for b in second] for a in first])
    return tuple(map(int, np.unravel_index(table.argmax(), table.shape)))
