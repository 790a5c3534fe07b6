"""Whether heads find the other end of syntactic relations, and whole trees."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from fairseq_normalign.attention.extract import to_words
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.attention_pass import record_heads, running_heads
from fairseq_normalign.heads.head_scores import MARGINS
from fairseq_normalign.heads.profile import Finding
from fairseq_normalign.heads.profiling import Survey
from fairseq_normalign.host.batches import map_batches, text_of_batch
from fairseq_normalign.host.pairs import Pair, PairReader, Sentence, examined
from fairseq_normalign.host.teacher_forcing import TeacherForcing, places_by_word
from fairseq_normalign.names import all_heads
from fairseq_normalign.progress import bar
from fairseq_normalign.runs.chunks import cut
from fairseq_normalign.text.treebank import Tree

RELATIONS = {"nsubj": ("nsubj",), "obj": ("obj", "dobj"), "amod": ("amod",), "advmod": ("advmod",)}
DIRECTIONS = ("{}→head", "head→{}")
MIN_CASES = 30  # fewer say nothing
WINDOW = 200  # trees sorted by length at a time


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


def syntax(survey: Survey) -> Finding:
    """Relations and trees in the weights of all encoder heads, between words."""
    options = survey.options
    if not options.trees:
        raise InputError("syntactic roles and UAS need a treebank; expected trees")
    forcing = TeacherForcing(survey.forcing.model, survey.reader.task, attention="encoder")
    heads = all_heads(running_heads(forcing))
    if not heads:
        warnings.warn("no syntactic roles: the encoder has no heads left", stacklevel=2)
        return Finding()
    measured = measure_syntax(forcing, survey)
    for relation in measured.missing():
        warnings.warn(
            f"{options.trees_name}: no sentence has the relation {relation!r}", stacklevel=2
        )
    scores, branching = measured.attachment_scores()
    attached = dict(zip(heads, scores, strict=True))
    places = {head: place for place, head in enumerate(heads)}
    facts = {"relations": measured.accuracies(), "branching": branching}
    settings = {"trees": len(options.trees), "margin": options.syntactic_margin}
    return Finding(attached, {"parsed": places}, facts, settings)


def measure_syntax(forcing: TeacherForcing, survey: Survey) -> Syntax:
    """The trees as all encoder heads see them, in the order of ``all_heads``.

    Args:
        forcing: looks at the encoder, as ``TeacherForcing(…, attention="encoder")``.
    """
    trees = survey.options.trees
    pairs = list(examined(_sentences(trees, survey.reader), survey.reader, name="treebank"))
    run = partial(_weights_between_words, forcing)
    measured = Syntax()
    this_pass = survey.sums.begin("trees", [measured], unit="sentences")
    windows = (window.items for window in cut(zip(trees, pairs, strict=True), WINDOW))
    with bar("trees", total=this_pass.left(len(trees)), unit="sentences") as shown:
        for window in this_pass.over(windows, text=text_of_batch, size=len):
            of_window = [pair for _, pair in window]
            weights = map_batches(of_window, run, max_tokens=survey.options.max_tokens)
            for (tree, _), of_tree in zip(window, weights, strict=True):
                measured.add(of_tree, tree)
                shown.update()
    return measured


def _sentences(trees: Sequence[Tree], reader: PairReader) -> Iterator[Pair]:
    """The sentences of a treebank, which have no target."""
    for number, tree in enumerate(trees, 1):
        yield reader.pair(tree.words, None, f"line {number} ({tree.where})")


def _weights_between_words(forcing: TeacherForcing, batch: list[Pair]) -> Iterator[np.ndarray]:
    """Weights of all heads together, (H, N, N) for each sentence."""
    forcing.check_lengths(batch)
    with torch.no_grad(), record_heads(forcing, values=False) as recording:
        forcing.forward(batch)
    by_layer = [recording[attention].weights for attention in running_heads(forcing)]
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
