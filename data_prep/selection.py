"""Which sentence pairs of a corpus are taken, and for what."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

Pair = tuple[str, str]


def clean(pairs: Iterable[Pair], max_words: int, max_ratio: float) -> Iterator[Pair]:
    """Pairs whose sides have 1 to `max_words` words, none of them `max_ratio` times the other's.

    What the Moses script clean-corpus-n does.
    """
    for pair in pairs:
        short, long = sorted(len(side.split()) for side in pair)
        if short > 0 and long <= max_words and long <= max_ratio * short:
            yield pair


def disjoint(pairs: Iterable[Pair], test: Sequence[Pair]) -> Iterator[Pair]:
    """Pairs, without those whose two sides both occur in the test set.

    Not necessarily as a pair.
    """
    sources = {pair[0] for pair in test}
    targets = {pair[1] for pair in test}
    return (pair for pair in pairs if not (pair[0] in sources and pair[1] in targets))


def without_last(pairs: Iterable[Pair], last: deque) -> Iterator[Pair]:
    """Pairs but for the last ones, which stay in `last`, a deque with a maximal length."""
    for pair in pairs:
        if len(last) == last.maxlen:
            yield last[0]
        last.append(pair)


def lowercase(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Pairs in lower case."""
    return ((source.lower(), target.lower()) for source, target in pairs)


def groups(total: int, sizes: Sequence[int], rng: random.Random) -> Iterator[int | None]:
    """For each of `total` things, at random the group it goes to, or None.

    Group g gets exactly sizes[g] of them, and every choice is equally likely (selection sampling;
    Knuth, The Art of Computer Programming 2, 3.4.2, Algorithm S, for several samples at once).
    """
    wanted = list(sizes)
    for remaining in range(total, 0, -1):
        draw = rng.randrange(remaining)
        group = None
        for number, size in enumerate(wanted):
            if draw < size:
                group = number
                wanted[number] -= 1
                break
            draw -= size
        yield group
