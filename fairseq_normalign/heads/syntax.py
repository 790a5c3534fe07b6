"""Whether heads find the other end of syntactic relations, and whole trees."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from fairseq_normalign.attention.extract import to_words
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.attention_pass import Tally, recorded_heads
from fairseq_normalign.heads.attention_scores import favourite, position_counts
from fairseq_normalign.heads.head_scores import MARGINS, Roles
from fairseq_normalign.heads.profile import Finding
from fairseq_normalign.heads.profiling import HeadMeasure, Items, Known, Pairs
from fairseq_normalign.host.batches import map_batches
from fairseq_normalign.host.pairs import EXAMINED_PAIRS, Pair, Sentence
from fairseq_normalign.host.raw_corpus import ChunkReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing, places_by_word
from fairseq_normalign.names import Head
from fairseq_normalign.results.blocks import Block, Cell, Note, Rows, Table
from fairseq_normalign.runs.chunks import Chunk
from fairseq_normalign.text.treebank import Tree

RELATIONS = {"nsubj": ("nsubj",), "obj": ("obj", "dobj"), "amod": ("amod",), "advmod": ("advmod",)}
DIRECTIONS = ("{}→head", "head→{}")
MIN_CASES = 30  # fewer say nothing


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
    cycle = _cycle(heads, root)
    if len(cycle) == 0:
        return heads
    first, others = cycle[0], cycle[1:]  # the first stands for all of it
    gains = scores[cycle] - scores[cycle, heads[cycle]][:, None]  # if the cycle opens there
    smaller = scores.copy()
    smaller[:, first] = scores[:, cycle].max(1)
    smaller[first] = gains.max(0)
    smaller[first, cycle] = smaller[others] = smaller[:, others] = -np.inf
    smaller[others, root] = 0
    inner = _arborescence(smaller, root)
    rest = np.setdiff1d(np.arange(len(scores)), cycle)
    heads[rest] = inner[rest]
    hanging = rest[inner[rest] == first]  # on the cycle
    heads[hanging] = cycle[scores[np.ix_(hanging, cycle)].argmax(1)]
    entrance = inner[first]
    heads[cycle[gains[:, entrance].argmax()]] = entrance
    return heads


def _cycle(heads: np.ndarray, root: int) -> np.ndarray:
    """The words of some cycle, or none."""
    ends = np.arange(len(heads))
    for _ in heads:
        ends = heads[ends]  # after as many steps as there are words, at the root or in a cycle
    cycle = list(ends[ends != root][:1])
    while cycle and heads[cycle[-1]] != cycle[0]:
        cycle.append(heads[cycle[-1]])
    return np.array(cycle, dtype=np.intp)


def attachments(heads: ArrayLike, gold: Sequence[int]) -> int:
    """How many words have their gold head. The root, which is given, does not count."""
    expected = np.asarray(gold)
    return int(((np.asarray(heads) == expected) & (expected >= 0)).sum())


# Every word hangs on the next, or on the one before.
BASELINES = {"left-branching": 1, "right-branching": -1}


class Relation(NamedTuple):
    """The other ends of a relation, in one direction: where they are, and which heads find them."""

    cases: int = 0
    offset: int = 0  # the most frequent relative position of the other end
    baseline: float = 0.0  # its share
    accuracies: Mapping[Head, float] = {}  # how often the maximum of a word is the other end

    def is_found(self, accuracy: float, margin: str) -> bool:
        """Whether an accuracy is above the baseline by a margin; see ``head_scores.MARGINS``."""
        return self.cases >= MIN_CASES and accuracy >= MARGINS[margin](self.baseline)


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


class Syntax(HeadMeasure):
    """Relations and trees in the weights of all encoder heads, between words.

    An item is a tree.
    """

    pairs_per_chunk = 200
    first_pairs = EXAMINED_PAIRS

    def items(self, models: ChunkReader, items: Items) -> Items:
        if not self.options.trees:
            raise InputError("syntactic roles and UAS need a treebank; pass --conllu FILE")
        return self.options.trees

    def pairs(self, models: ChunkReader, chunk: Chunk) -> tuple[Sequence[Pair], Known]:
        trees = chunk.items
        return [models.reader.pair(tree.words, None, tree.where) for tree in trees], {}

    def prepared(self, models: ChunkReader, first: Chunk) -> Known:
        models.reader.examine(self.pairs(models, first)[0], "treebank")
        return {"trees": len(self.options.trees)}

    def add(self, tally: Tally, models: ChunkReader, pairs: Pairs) -> None:
        if not tally.of_kind("encoder"):
            return
        encoder = TeacherForcing(models.forcing.model, models.reader.task, attention="encoder")
        run = partial(_weights_between_words, encoder)
        weights = map_batches(pairs.values(), run, max_tokens=self.options.max_tokens)
        for line, of_tree in zip(pairs, weights, strict=True):
            add_tree(tally, of_tree, self.options.trees[line])

    def finding(self, tally: Tally) -> Finding:
        heads = tally.of_kind("encoder")
        if not heads:
            warnings.warn("no syntactic roles: the encoder has no heads left", stacklevel=2)
            return Finding()
        found = relations(tally, heads)
        for relation in RELATIONS:
            if not found[DIRECTIONS[0].format(relation)].cases:
                text = f"{self.options.trees_name}: no sentence has the relation {relation!r}"
                warnings.warn(text, stacklevel=2)
        scores, baselines = attachment_scores(tally)
        trees = ", ".join(f"{name} {100 * uas:.1f}" for name, uas in baselines.items())
        note = Note(f"UAS in % of trees without attention: {trees}.")
        margin = self.options.syntactic_margin
        return Finding(
            dict(zip(heads, scores, strict=True)),
            {"trees": tally.known["trees"], "margin": margin},
            syntactic_roles(found, margin),
            [*relation_tables(found), note],
        )


def syntactic_roles(found: Mapping[str, Relation], margin: str) -> dict[Head, Roles]:
    """The relations that each head finds, labelled with accuracy and baseline in %."""
    roles: dict[Head, Roles] = {}
    for name, relation in found.items():
        for head, accuracy in relation.accuracies.items():
            if relation.is_found(accuracy, margin):
                label = f"{name} {100 * accuracy:.0f}/{100 * relation.baseline:.0f}"
                roles.setdefault(head, []).append(("syntactic", label))
    return roles


def relation_tables(found: Mapping[str, Relation]) -> list[Block]:
    """Each relation and direction: cases, the baseline, and the best head; and all accuracies."""
    rows: Rows = []
    every: Rows = []
    for name, (cases, offset, baseline, accuracies) in found.items():
        best: list[Cell] = [None] * 4
        if cases:
            head = max(accuracies, key=accuracies.__getitem__)
            best = [100 * baseline, f"{offset:+d}", 100 * accuracies[head], str(head)]
        rows.append([name, cases, *best])
        every += [[str(head), name, 100 * share] for head, share in accuracies.items()]
    columns = ["relation", "cases", "baseline %", "at", "accuracy %", "best head"]
    return [
        Table(columns, rows, "Syntactic relations", 1, name="relations"),
        Table(["head", "relation", "accuracy %"], every, name="accuracies", hidden=True),
    ]


def add_tree(tally: Tally, weights: np.ndarray, tree: Tree) -> None:
    """Adds a sentence.

    Args:
        weights: between its words, (H, N, N): what a word gives to all pieces of another,
            averaged over its own.
    """
    maxima = weights.argmax(2)  # (H, N)
    for name, query, other in ends(tree):
        tally.join(f"{name}.hits.sum", (maxima[:, query] == other).astype(int))
        tally.join(f"{name}.offsets.sum", position_counts(np.array([[other - query]])))
    induced = [attachments(maximum_spanning_tree(head, tree.root), tree.heads) for head in weights]
    tally.join("attached.sum", np.array(induced, dtype=np.int64))
    places = np.arange(len(tree.words))
    lean = [attachments(places + offset, tree.heads) for offset in BASELINES.values()]
    tally.join("branching.sum", lean)
    tally.join("words.sum", [len(tree.words) - 1])


def relations(tally: Tally, heads: Sequence[Head]) -> dict[str, Relation]:
    """Of every relation and direction, how often it was there, and where, and who found it."""
    found = {}
    for relation, way in product(RELATIONS, DIRECTIONS):
        name = way.format(relation)
        found[name] = Relation()
        if f"{name}.offsets.sum" in tally.arrays:
            (counts,) = tally.arrays[f"{name}.offsets.sum"]
            shares = (tally.arrays[f"{name}.hits.sum"] / counts.sum()).tolist()
            accuracies = dict(zip(heads, shares, strict=True))
            found[name] = Relation(int(counts.sum()), *favourite(counts), accuracies)
    return found


def attachment_scores(tally: Tally) -> tuple[list[float], dict[str, float]]:
    """UAS of the trees of every head, and of the baselines.

    Punctuation counts; the root, which is given, does not.
    An arc is as good as the weight that the dependent gives to its head (Raganato and
    Tiedemann, 2018).
    """
    words = max(1, int(tally.arrays["words.sum"][0]))
    baselines = (tally.arrays["branching.sum"] / words).tolist()
    scores = (tally.arrays["attached.sum"] / words).tolist()
    return scores, dict(zip(BASELINES, baselines, strict=True))


def _weights_between_words(forcing: TeacherForcing, batch: list[Pair]) -> Iterator[np.ndarray]:
    """Weights of all heads together, (H, N, N) for each sentence."""
    recording = recorded_heads(forcing, batch, values=False)
    by_layer = [recorded.weights for recorded in recording.values()]
    weights = torch.cat(by_layer, 1).float().cpu().numpy()
    for matrix, pair in zip(weights, batch, strict=True):
        yield between_words(matrix, pair.source)


def between_words(weights: np.ndarray, sentence: Sentence) -> np.ndarray:
    """Weights between pieces (H, T, T) → between words (H, N, N), without marks.

    Keys of a word are added, its queries averaged.
    """
    order, ids = places_by_word(sentence)
    words = to_words(weights[:, order[:, None], order], ids, ids)
    return words[:, : len(sentence.text), : len(sentence.text)]
