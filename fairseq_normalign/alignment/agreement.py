"""How much two alignments of the same sentences agree."""

from __future__ import annotations

from collections.abc import Sequence, Set

from fairseq_normalign.text.links import Link

Alignments = Sequence[Set[Link]]  # the links of each sentence pair


def agreement(first: Alignments, second: Alignments) -> float:
    """Dice coefficient of the links of a corpus, 2|A∩B| / (|A| + |B|); 0 if there are none."""
    shared = 0
    for links, other_links in zip(first, second, strict=True):
        shared += len(links & other_links)
    total = sum(map(len, first)) + sum(map(len, second))
    return 2 * shared / total if total else 0.0
