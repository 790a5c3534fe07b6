"""Links of words → links of their pieces, as fairseq trains on them (``--load-alignments``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import Link


def piece_links(
    links: Iterable[Link],
    source_ids: Sequence[int],
    target_ids: Sequence[int],
    *,
    read: bool = False,
) -> list[Link]:
    """Every source piece of a linked word with every target piece of the other word.

    fairseq's criterion takes the link (s, t) for row t of the decoder, which predicts piece t. The
    row that reads piece t is row t + 1. fairseq gives up all links of a sentence that has one with
    t ≥ T, so the last piece, which row T reads, has no link for rows that read.

    Args:
        links: of words, (source, target).
        source_ids: the word of each source piece.
        target_ids: the word of each target piece.
        read: the links are to be those of the rows that read a piece.

    Returns:
        Links (s, t) in order, 0 ≤ s < S and 0 ≤ t < T pieces.
    """
    sources = _places(source_ids)
    targets = _places(target_ids)
    found = set()
    for source, target in _checked(links, len(sources), len(targets)):
        for place in sources[source]:
            found |= {(place, row + read) for row in targets[target]}
    return sorted(link for link in found if link[1] < len(target_ids))


def _places(ids: Sequence[int]) -> list[list[int]]:
    """The pieces of each word."""
    words: list[list[int]] = [[] for _ in range(max(ids, default=-1) + 1)]
    for place, word in enumerate(ids):
        words[word].append(place)
    return words


def _checked(links: Iterable[Link], sources: int, targets: int) -> Iterator[Link]:
    for source, target in links:
        if source >= sources or target >= targets:
            raise InputError(
                f"link {source}-{target} of a pair of {sources} and {targets} words; expected "
                "links of this text, counted from 0"
            )
        yield source, target
