"""Which decoder layer aligns best at which step, found without gold."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from itertools import islice

from fairseq_normalign.attention.extract import argmax, mutual_argmax
from fairseq_normalign.attention.soft import Evidence, Soft
from fairseq_normalign.errors import MissingSubset
from fairseq_normalign.host.binarised import binarised_pairs
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import Model
from fairseq_normalign.text.links import Link

Alignments = Sequence[Set[Link]]  # the links of each sentence pair

SAMPLE = 500  # how many pairs decide
# Too few to decide on: the validation set is asked instead, if there is one. What is learned on 50
# pairs of German–English scatters over 2 points of AER, on 100 over 0.7.
FEW = 100
# Of words that choose each other, above chance. On 50 pairs or more, three pairs of languages gave
# 0.25 to 0.56 by norms and from 0.15 on by weights; 0.09 at most where the files were swapped,
# −0.06 where targets were shuffled or a line out of step, and −1 with random weights.
TRUSTED = 0.12


def decisive_samples(
    models: Sequence[Model],
    first: Sequence[list[Pair]],
    what: str = "to choose layer and step well, align",
) -> Sequence[list[Pair]]:
    """Pairs to decide on: the first ones of the corpus, or if they are few the validation set.

    With two models it must have the same pairs in both directions.

    Args:
        first: the first pairs of the corpus, as each model reads them; links of other aligners may
            follow, which no validation set has.
        what: is better with more pairs, for the warning.
    """
    if len(first[0]) >= FEW:
        return first
    samples = []
    if len(first) == len(models):
        with suppress(MissingSubset):
            samples = [_validation_set(model) for model in models]
    turned = [[(pair.target.text, pair.source.text) for pair in pairs] for pairs in samples[1:]]
    if samples and all(turned_pairs == _texts(samples[0]) for turned_pairs in turned):
        return samples
    warnings.warn(
        f"only {len(first[0])} pairs, and no validation set: {what} {FEW} pairs or more at once",
        stacklevel=2,
    )
    return first


def _validation_set(model: Model) -> list[Pair]:
    valid = islice(binarised_pairs("valid", model.reader), SAMPLE)
    return [pair for pair in valid if model.forcing.takes(pair)]


def _texts(pairs: Sequence[Pair]) -> list[tuple[Sequence[str], Sequence[str]]]:
    return [(pair.source.text, pair.target.text) for pair in pairs]


def warn_of_noise(agreement: float, pairs: int, name: str) -> None:
    """Says if source and target words agree so little that links are worth nothing.

    Args:
        pairs: that it was measured on; few may disagree by bad luck.
        name: of the model.
    """
    if agreement < TRUSTED - 1 / max(pairs, 1):
        warnings.warn(
            f"model {name}: its words choose each other no more than by chance (agreement "
            f"{agreement:.2f}; expected {TRUSTED} or more), so that links cannot be trusted; are "
            "the texts swapped, out of step or of other languages, or is the model not trained?",
            stacklevel=2,
        )


class LayerVote:
    """Finds the layer and step of a method that align best, and the layer for the other step.

    Words correspond almost one to one, and a layer that does not align has no reason to show it:
    the best layer and step are those where most words choose each other (mutual argmax), and the
    same words do so again elsewhere. The latter tells the steps of a layer apart: their matrices
    differ by one row. At the other step, a layer that aligns must tell the same story: the one
    whose links agree most with the best.

    Args:
        candidates: the layers and steps to choose from.
        null: whether a word that takes most from </s> has no link.
    """

    def __init__(self, candidates: Sequence[Evidence], *, null: bool = True):
        self.candidates, self.null = candidates, null
        self.links: dict[Evidence, list[set[Link]]] = {evidence: [] for evidence in candidates}
        # How often each two words choose each other.
        self.mutual: dict[Evidence, Counter[tuple[str, str]]] = defaultdict(Counter)
        self.shapes: list[tuple[int, int]] = []  # (T, S) of each pair

    def add(self, softs: Sequence[Soft]) -> None:
        """Hears one pair: a soft alignment, with its words, for each candidate."""
        targets, sources = softs[0].words.shape
        self.shapes.append((targets, sources))
        for evidence, soft in zip(self.candidates, softs, strict=True):
            of_eos = soft.null if self.null else None
            self.links[evidence].append(set(argmax(soft.words, null=of_eos)))
            assert soft.texts is not None
            source, target = soft.texts
            self.mutual[evidence].update(
                (source[s], target[t]) for s, t in mutual_argmax(soft.words)
            )

    def chosen(self) -> list[Evidence]:
        """The layer and step that most speaks for; then the layer that agrees at the other step."""
        best = max(self.candidates, key=self._support)
        others = [evidence for evidence in self.candidates if evidence.step != best.step]
        if not others:
            return [best]
        return [best, max(others, key=lambda other: agreement(self.links[best], self.links[other]))]

    def agreement_of(self, evidence: Evidence) -> float:
        """How far source and target words agree by one of the candidates, above chance."""
        return above_chance(self.mutual[evidence].total(), self.shapes)

    def _support(self, evidence: Evidence) -> float:
        """How many words choose each other, those that do so again elsewhere up to twice."""
        mutual = self.mutual[evidence]
        return mutual.total() + consistency(mutual)


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
