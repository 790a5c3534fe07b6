"""Trees from attention: the maximum spanning tree, scored against a treebank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np


def maximum_spanning_tree(scores: np.ndarray, root: int) -> np.ndarray:
    """The heads of the tree below ``root`` whose arcs have the largest sum.

    Chu and Liu (1965); Edmonds (1967).

    Args:
        scores: of each arc, (dependent, head): (N, N). The diagonal does not count.

    Returns:
        The head of each word, (N,); -1 for the root.
    """
    scores = np.array(scores, dtype=np.float64)
    np.fill_diagonal(scores, -np.inf)
    heads = _arborescence(scores, root)
    heads[root] = -1
    return heads


def _arborescence(scores: np.ndarray, root: int) -> np.ndarray:
    """Every word takes its best head; then cycles are opened, one after the other.

    A cycle becomes one word, and the tree of what is left says where it opens.
    """
    heads = scores.argmax(1)
    heads[root] = root
    cycle = np.array(_cycle(heads, root), dtype=np.intp)
    if len(cycle) == 0:
        return heads
    rest = np.setdiff1d(np.arange(len(scores)), cycle)
    within = scores[cycle, heads[cycle]]
    gains = scores[np.ix_(cycle, rest)] - within[:, None]  # if the cycle opens there
    opened = gains.argmax(0)  # which word of the cycle each head outside would take
    held = scores[np.ix_(rest, cycle)].argmax(1)  # on which of it each word outside would hang
    smaller = np.full((len(rest) + 1, len(rest) + 1), -np.inf)  # the cycle comes last
    smaller[:-1, :-1] = scores[np.ix_(rest, rest)]
    smaller[:-1, -1] = scores[rest, cycle[held]]
    smaller[-1, :-1] = gains.max(0)
    inner = _arborescence(smaller, int(np.searchsorted(rest, root)))
    for place, word in enumerate(rest):
        hangs_on_cycle = inner[place] == len(rest)
        heads[word] = cycle[held[place]] if hangs_on_cycle else rest[inner[place]]
    entrance = inner[-1]
    heads[cycle[opened[entrance]]] = rest[entrance]
    return heads


def _cycle(heads: np.ndarray, root: int) -> list[int]:
    """The words of some cycle, or none."""
    done = {root}
    for start in range(len(heads)):
        path = []
        word = start
        while word not in done:
            done.add(word)
            path.append(word)
            word = int(heads[word])
        if word in path:
            return path[path.index(word) :]
    return []


def attachments(heads: Iterable[int], gold: Sequence[int]) -> int:
    """How many words have their gold head. The root, which is given, does not count."""
    pairs = zip(heads, gold, strict=True)
    return sum(head == gold_head for head, gold_head in pairs if gold_head >= 0)


# Every word hangs on the next, or on the one before.
BASELINES = {"left-branching": 1, "right-branching": -1}


def branching(gold: Sequence[int], offset: int) -> int:
    """How many words have the neighbour at ``offset`` as their gold head."""
    return attachments([place + offset for place in range(len(gold))], gold)
