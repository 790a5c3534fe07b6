"""How much alignments of the same sentences agree, and source and target words in one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set

from fairseq_normalign.text.links import Link

Alignments = Sequence[Set[Link]]  # the links of each sentence pair


def agreement(first: Alignments, second: Alignments) -> float:
    """Dice coefficient of the links of a corpus, 2|A∩B| / (|A| + |B|); 0 if there are none."""
    shared = 0
    for links, other_links in zip(first, second, strict=True):
        shared += len(links & other_links)
    total = sum(map(len, first)) + sum(map(len, second))
    return 2 * shared / total if total else 0.0


def consistency(linked: Mapping[tuple[str, str], int]) -> float:
    """How many links repeat: summed over links, the share of its words' links that are the same.

    The share is of the more frequent one of the two words, the link itself left out.

    Args:
        linked: how often each two words, of source and target, are linked in a corpus.
    """
    sources: Counter[str] = Counter()
    targets: Counter[str] = Counter()
    for (source, target), count in linked.items():
        sources[source] += count
        targets[target] += count
    shares = (
        count * (count - 1) / max(sources[source], targets[target])
        for (source, target), count in linked.items()
    )
    return sum(shares)


def above_chance(mutual: int, shapes: Iterable[tuple[int, int]]) -> float:
    """How many more words choose each other than by chance: 0 if no more, 1 if all do.

    In a random matrix (T, S), TS / (T + S − 1) cells are the largest of both row and column.

    Args:
        mutual: how many words choose each other.
        shapes: how many target and source words each pair has.
    """
    sizes = [shape for shape in shapes if all(shape)]
    chance = sum(targets * sources / (targets + sources - 1) for targets, sources in sizes)
    most = sum(map(min, sizes))
    return (mutual - chance) / (most - chance) if most > chance else 1.0
