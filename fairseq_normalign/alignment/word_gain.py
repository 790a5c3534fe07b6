"""How good links are, told without gold: how well linked words foretell each other.

Translations repeat. If links are right, a word's links in the rest of the corpus foretell what it
is linked with here; if they are not, they foretell no more than how frequent words are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import log
from typing import NamedTuple

from fairseq_normalign.text.links import Link

SMOOTHING = 2.0  # links that each word is given beforehand, by how frequent the others are


class Linked(NamedTuple):
    """A pair of sentences and the links between their words."""

    source: Sequence[str]
    target: Sequence[str]
    links: Iterable[Link]


def word_gain(pairs: Sequence[Linked]) -> float:
    """Nats per word that are saved by coding each word given the words that it is linked with.

    A word w that is linked with v_1 … v_k saves log (1/k Σ_i p(w | v_i)) − log u(w), where u(w) is
    how frequent it is, and p(w | v) = (n(v, w) + β u(w)) / (n(v) + β) comes from the links of all
    other pairs. A word without links saves nothing. Both directions count.
    """
    turned = []
    for source, target, links in pairs:
        turned.append(Linked(target, source, [(t, s) for s, t in links]))
    words = sum(len(pair.source) + len(pair.target) for pair in pairs)
    return (_saved(pairs) + _saved(turned)) / max(words, 1)


def _saved(pairs: Sequence[Linked]) -> float:
    """What target words save, given source words."""
    frequency: Counter[str] = Counter()
    linked: Counter[tuple[str, str]] = Counter()
    given: Counter[str] = Counter()
    for pair in pairs:
        frequency.update(pair.target)
        _count(pair, linked, given)
    total = sum(frequency.values()) + 0.5 * len(frequency)
    saved = 0.0
    for pair in pairs:
        own: Counter[tuple[str, str]] = Counter()
        own_given: Counter[str] = Counter()
        _count(pair, own, own_given)
        sums: dict[int, list[float]] = {}
        for s, t in pair.links:
            word, other = pair.target[t], pair.source[s]
            share = (frequency[word] + 0.5) / total
            together = linked[other, word] - own[other, word]
            alone = given[other] - own_given[other]
            probability = (together + SMOOTHING * share) / (alone + SMOOTHING)
            sums.setdefault(t, []).append(probability / share)
        saved += sum(log(sum(ratios) / len(ratios)) for ratios in sums.values())
    return saved


def _count(pair: Linked, linked: Counter[tuple[str, str]], given: Counter[str]) -> None:
    for s, t in pair.links:
        linked[pair.source[s], pair.target[t]] += 1
        given[pair.source[s]] += 1
