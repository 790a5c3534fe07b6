"""Whether heads find the other end of syntactic relations, and whole trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from fairseq_normalign.heads.criteria import MARGINS
from fairseq_normalign.heads.trees import BASELINES, attachments, branching, maximum_spanning_tree
from fairseq_normalign.text.treebank import Tree

RELATIONS = {"nsubj": ("nsubj",), "obj": ("obj", "dobj"), "amod": ("amod",), "advmod": ("advmod",)}
DIRECTIONS = ("{}→head", "head→{}")
MIN_CASES = 30  # fewer say nothing


class Accuracy(NamedTuple):
    """How often the maximum of a word is the other end of its relation, in one direction."""

    cases: int
    offset: int | None  # the most frequent relative position of the other end
    baseline: float | None  # its share
    heads: list[float]  # (H,), empty without cases

    def beats_baseline(self, head: int, margin: str) -> bool:
        """Whether a head is above the baseline by a margin; see ``criteria.MARGINS``."""
        if self.cases < MIN_CASES or self.baseline is None:
            return False
        return self.heads[head] >= MARGINS[margin](self.baseline)


def ends(tree: Tree) -> Iterator[tuple[str, int, int]]:
    """Cases of a tree: (relation and direction, word that looks, word to be found).

    Subtypes are other relations.
    """
    for dependent, (head, label) in enumerate(zip(tree.heads, tree.relations, strict=True)):
        for relation, labels in RELATIONS.items():
            if head >= 0 and label in labels:
                to_head, from_head = DIRECTIONS
                yield to_head.format(relation), dependent, head
                yield from_head.format(relation), head, dependent


class Syntax:
    """Relations and trees in the weights of some heads, as sentences come."""

    KEPT = ("hits", "offsets", "attached", "branching", "words")

    def __init__(self) -> None:
        names = [way.format(relation) for relation, way in product(RELATIONS, DIRECTIONS)]
        self.hits: dict[str, np.ndarray] = {name: np.zeros(1) for name in names}  # (H,)
        self.offsets: dict[str, Counter[int]] = {name: Counter() for name in names}
        self.attached = np.zeros(1)  # (H,)
        self.branching: Counter[str] = Counter()
        self.words = 0

    def add(self, weights: np.ndarray, tree: Tree) -> None:
        """Adds a sentence.

        Args:
            weights: between its words, (H, N, N): what a word gives to all pieces of another,
                averaged over its own.
        """
        maxima = weights.argmax(2)  # (H, N)
        for name, query, other in ends(tree):
            self.hits[name] = self.hits[name] + (maxima[:, query] == other)
            self.offsets[name][other - query] += 1
        induced = [
            attachments(maximum_spanning_tree(head, tree.root), tree.heads) for head in weights
        ]
        self.attached = self.attached + np.array(induced)
        self.branching.update(
            {name: branching(tree.heads, offset) for name, offset in BASELINES.items()}
        )
        self.words += len(tree.words) - 1

    def accuracies(self) -> dict[str, Accuracy]:
        """Of every relation and direction."""
        return {name: _accuracy(hits, self.offsets[name]) for name, hits in self.hits.items()}

    def missing(self) -> list[str]:
        """Relations that no sentence has."""
        return [
            relation for relation in RELATIONS if not self.offsets[DIRECTIONS[0].format(relation)]
        ]

    def attachment_scores(self) -> tuple[list[float], dict[str, float]]:
        """UAS of the trees of every head, and of the baselines.

        Punctuation counts; the root, which is given, does not.
        An arc is as good as the weight that the dependent gives to its head (Raganato and
        Tiedemann, 2018).
        """
        words = max(1, self.words)
        baselines = {name: self.branching[name] / words for name in BASELINES}
        return (self.attached / words).tolist(), baselines


def _accuracy(hits: np.ndarray, offsets: Counter[int]) -> Accuracy:
    cases = sum(offsets.values())
    if not cases:
        return Accuracy(0, None, None, [])
    offset, count = offsets.most_common(1)[0]
    return Accuracy(cases, offset, count / cases, (hits / cases).tolist())
