"""Two directions -> one alignment.

Och and Ney (2003); Koehn et al. (2003). Growing visits links in a fixed order and sees what it has
just added, so the order is part of each variant:

``moses``
    As symal does it: a neighbour joins if at least one of its words is free. Target-major order.
``lilt``
    As lilt/alignment-scripts published its results: a neighbour joins only if both its words are
    free. Source-major order. Its "grow-diagonal-final" is our ``grow-diag-final-and``: it has no
    rule for links with one free word, so ``grow-diag-final`` is refused.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Set

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import Link

# Neighbours as (major, minor) steps, in the order of visiting. lilt's order decides which of two
# diagonal neighbours takes a word that both want; its orthogonal neighbours never compete, as each
# shares a word with the link.
ORTHOGONAL = [(-1, 0), (0, -1), (1, 0), (0, 1)]
MOSES_DIAGONAL = [(-1, -1), (-1, 1), (1, -1), (1, 1)]
LILT_DIAGONAL = [(-1, 1), (-1, -1), (1, -1), (1, 1)]


VARIANTS = ("moses", "lilt")
ORDERS = ("target-source", "source-target")  # of reverse links: our models' own, and eflomal's
SAMPLE = 1000  # sentence pairs that tell the order
HEURISTICS = ("intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and")


def symmetrize(
    forward: Set[Link], reverse: Set[Link], heuristic: str, *, variant: str = "moses"
) -> set[Link]:
    """The links that a heuristic makes of two directions.

    Args:
        forward: links (source, target) of the source-to-target model.
        reverse: links of the other model, (source, target) as well.
        heuristic: one of ``HEURISTICS``. ``final`` adds links with one free word, ``final-and``
            with two.
        variant: one of ``VARIANTS``; it matters to growing only. ``lilt`` has no
            ``grow-diag-final``.
    """
    check_variant(heuristic, variant)
    if heuristic == "intersection":
        return set(forward & reverse)
    if heuristic == "union":
        return set(forward | reverse)
    if variant == "lilt":
        growing = _Growing(set(forward & reverse), LILT_DIAGONAL, both_free=True)
        return growing.result(forward, reverse, heuristic)
    growing = _Growing(swapped(forward & reverse), ORTHOGONAL + MOSES_DIAGONAL, both_free=False)
    return swapped(growing.result(swapped(forward), swapped(reverse), heuristic))


def check_variant(heuristic: str, variant: str) -> None:
    """Refuses what nobody does."""
    if (heuristic, variant) == ("grow-diag-final", "lilt"):
        raise InputError(
            "grow-diag-final has no variant lilt: what lilt/alignment-scripts calls "
            "grow-diagonal-final is grow-diag-final-and here"
        )


def swapped(links: Iterable[Link]) -> set[Link]:
    """The links with their sides exchanged."""
    return {(b, a) for a, b in links}


def common_links(pairs: Iterable[tuple[Set[Link], Set[Link]]]) -> dict[str, int]:
    """By each order of the reverse links: how many of them are links of the forward direction.

    Two directions of the same text agree in most links, and in few if one is read the wrong way.
    """
    common = dict.fromkeys(ORDERS, 0)
    for forward, reverse in pairs:
        common["target-source"] += len(forward & swapped(reverse))
        common["source-target"] += len(forward & reverse)
    return common


class _Growing:
    """Links so far and the words they cover. Links are (major, minor).

    Args:
        neighbours: steps from a link to those that may join, in the order of visiting.
        both_free: whether both words of a link that joins must be free, or one of them.
    """

    def __init__(self, links: set[Link], neighbours: list[Link], *, both_free: bool) -> None:
        self.links, self.neighbours, self.both_free = links, neighbours, both_free
        self.major = {a for a, _ in links}
        self.minor = {b for _, b in links}

    def add(self, link: Link) -> None:
        self.links.add(link)
        self.major.add(link[0])
        self.minor.add(link[1])

    def takes(self, link: Link, both_free: bool) -> bool:
        """Whether one word of the link is free, or both are."""
        free = (link[0] not in self.major, link[1] not in self.minor)
        return all(free) if both_free else any(free)

    def result(self, forward: Set[Link], reverse: Set[Link], heuristic: str) -> set[Link]:
        """Grows, and then links words that are still free, if the heuristic does."""
        self.grow(forward ^ reverse)
        if heuristic != "grow-diag":
            for link in [*sorted(forward), *sorted(reverse)]:
                if self.takes(link, both_free=heuristic.endswith("-and")):
                    self.add(link)
        return self.links

    def grow(self, pending: Set[Link]) -> None:
        """Adds neighbours of links, pass after pass over all links in order, until none joins.

        Words never become free again: a pending link that may not join now never will.
        """
        waiting = 0
        while waiting != len(pending):
            pending = {link for link in pending if self.takes(link, self.both_free)}
            waiting = len(pending)
            visits = sorted(self.links) if pending else []
            for current in visits:  # grows: a link added behind the current one has its turn, too
                for major, minor in self.neighbours:
                    new = (current[0] + major, current[1] + minor)
                    if new in pending and self.takes(new, self.both_free):
                        self.add(new)
                        pending.remove(new)
                        if new > current:
                            insort(visits, new)
