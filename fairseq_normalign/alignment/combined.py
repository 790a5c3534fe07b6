"""Alignments from many evidences at once.

Layers, heads and steps of one model, or of two models of opposite directions, and links of other
aligners.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, tee, zip_longest
from typing import Any, NamedTuple

import numpy as np

from fairseq_normalign.alignment.agreement import above_chance
from fairseq_normalign.alignment.aligner import NormAligner, OpenAligner, Progress
from fairseq_normalign.alignment.combine import MEANS, link_matrix
from fairseq_normalign.alignment.evidence import COMBINATIONS, Weighted, every_evidence
from fairseq_normalign.alignment.layer_choice import (
    FEW,
    SAMPLE,
    decisive_samples,
    warn_of_noise,
)
from fairseq_normalign.alignment.learned import (
    EXTERNAL,
    Example,
    Group,
    LearnedLinks,
    learn_links,
)
from fairseq_normalign.alignment.lexicon import Lexicon
from fairseq_normalign.alignment.two_models import check_directions, check_same_sentences
from fairseq_normalign.attention.extract import confidences, extractor, mutual_argmax
from fairseq_normalign.attention.methods import full_spec
from fairseq_normalign.attention.soft import Evidence, Soft
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.progress import bar
from fairseq_normalign.text.links import Link

# How links are taken from a combined matrix; chosen on the odd lines of the RWTH German–English
# gold.
EXTRACT = {
    "product": "relative:0.75",
    "harmonic": "relative:0.75",
    "mean": "relative:0.75",
    "learned": "grow:0.5",
}
LEARN_PAIRS = 2000  # that the lexicon is counted in


class Combination(NamedTuple):
    """What is decided: evidences, and what was learned of them.

    Evidences of the reverse model are last, as examples have them.
    """

    evidences: Sequence[Weighted]
    model: LearnedLinks | None = None


class CombinedAligner(OpenAligner):
    """Aligns words by all that one model, or two models of opposite directions, know.

    Layers are chosen and the model is learned on the first pairs, so it needs a corpus, or a
    validation set, rather than a sentence; once that is done, further calls use what was found.
    ``decide(pairs)`` returns an aligner that has learned, for single sentences. A decision is a
    ``Combination``.

    Args:
        forward: an aligner of the model that translates source to target; its ``method``, ``eos``
            and merges are used.
        backward: an aligner of the model that translates target to source.
        combine: ``product`` (geometric), ``harmonic`` or arithmetic ``mean`` of the evidences; or
            ``learned``: the probability of a link given all evidences and what the corpus says,
            learned without gold on the first pairs (see ``alignment.learned``).
        evidences: which; by default the layers chosen for both steps for a mean, and every layer
            and head at both steps for ``learned``.
        extract: how links are taken from the combined matrix, by default ``relative`` of a mean and
            ``grow`` of what was learned.
        links: how many streams of links of other aligners there are; for ``learned`` only.
        learn_pairs: in how many of the first pairs the lexicon is counted.
        lexicon: one that was counted before.
    """

    def __init__(
        self,
        forward: NormAligner,
        backward: NormAligner | None = None,
        *,
        combine: str = "learned",
        evidences: Sequence[Weighted] | None = None,
        extract: str | None = None,
        links: int = 0,
        learn_pairs: int = LEARN_PAIRS,
        lexicon: Lexicon | None = None,
    ):
        if combine not in COMBINATIONS:
            expected = ", ".join(COMBINATIONS)
            raise InputError(f"unknown combination {combine!r}; expected one of: {expected}")
        if links and combine != "learned":
            raise InputError(f"links of other aligners need combination learned, not {combine}")
        self.aligners = [forward] if backward is None else [forward, backward]
        self.combine, self.link_streams = combine, links
        self.learn_pairs, self.lexicon = learn_pairs, lexicon
        self.extract = extract or EXTRACT[combine]
        self._links = extractor(self.extract)
        check_directions(self.aligners)
        self.evidences = self._checked(evidences) if evidences else None
        if combine == "learned":
            self.decided_on = max(SAMPLE, learn_pairs)
        elif self.evidences:
            self.remembered = Combination(self.evidences)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aligners}, {self.combine!r}, {self.extract!r})"

    @property
    def models(self) -> Sequence[NormAligner]:
        return self.aligners

    def _checked(self, evidences: Sequence[Weighted]) -> list[Weighted]:
        """Evidences that the models have, those of the reverse model last."""
        if not any(weighted.weight for weighted in evidences):
            raise InputError("the evidences have weight 0; expected one of them to count")
        for evidence, reverse, _ in evidences:
            if reverse and len(self.aligners) == 1:
                raise InputError("an evidence of the reverse model, but there is no reverse model")
            self.aligners[reverse].check(evidence)
        return sorted(evidences, key=lambda weighted: weighted.reverse)

    def decision_on(self, first: Sequence[list[Any]]) -> tuple[Combination, float]:
        if self.combine == "learned":
            return self._learned(first, self.evidences or self.every_evidence())
        return self._agreed(decisive_samples(self.aligners, first))

    def as_json(self, decision: Combination) -> dict[str, Any]:
        evidences = []
        for evidence, reverse, weight in decision.evidences:
            evidences.append([evidence._asdict(), reverse, weight])
        return {"evidences": evidences, "model": decision.model and decision.model.as_json()}

    def from_json(self, contents: Mapping[str, Any]) -> Combination:
        evidences = []
        for evidence, reverse, weight in contents["evidences"]:
            evidences.append(Weighted(Evidence(**evidence), bool(reverse), float(weight)))
        learned = contents["model"]
        model = None if learned is None else LearnedLinks.from_json(learned)
        if (model is not None) != (self.combine == "learned"):
            raise InputError(f"another combination; expected {self.combine}")
        if model:
            expected = (len(evidences) + self.link_streams,)
            for weights in (model.link_weights, model.evidences.weights):
                if weights.shape != expected:
                    raise InputError("weights of other evidences; expected one for each")
        if model and self.lexicon and model.lexicon.as_json() != self.lexicon.as_json():
            raise InputError("what was decided has another lexicon; expected the same one")
        return Combination(self._checked(evidences), model)

    def _learned(
        self, first: Sequence[list[Any]], evidences: Sequence[Weighted]
    ) -> tuple[Combination, float]:
        """How to combine the evidences, learned on the first pairs; and how far words agree."""
        start = [pairs[:SAMPLE] for pairs in first]
        decisive = self._to_learn_on(start)
        from_corpus = decisive[0] is start[0]
        rest = [pairs[SAMPLE:] for pairs in first] if from_corpus else first
        groups = self._groups(evidences)
        with bar("learning", total=len(decisive[0]) + len(rest[0])) as shown:
            examples = self._examples(decisive, evidences, shown.update)
            sample = list(filter(_says_something, examples))
            more = filter(_says_something, self._examples(rest, evidences, shown.update))
            model = learn_links(sample, more, groups, self.lexicon, self.learn_pairs)
        return Combination(evidences, model), self._agreement(sample, evidences)

    def _to_learn_on(self, start: Sequence[list[Any]]) -> Sequence[list[Any]]:
        if not self.link_streams:
            return decisive_samples(self.aligners, start, "weights")
        if len(start[0]) < FEW:  # the validation set has no links
            warnings.warn(
                f"weights are learned on {len(start[0])} pairs; better align {FEW} or more",
                stacklevel=2,
            )
        return start

    def _agreement(self, sample: Sequence[Example], evidences: Sequence[Weighted]) -> float:
        """That of the model whose words agree least, each by its best layer."""
        of_models: dict[bool, list[float]] = {}
        for place, (evidence, reverse, _) in enumerate(evidences):
            if evidence.head is None:
                of_models.setdefault(reverse, []).append(_mutual_agreement(sample, place))
        for reverse, agreements in of_models.items():
            warn_of_noise(max(agreements), len(sample), self.aligners[reverse].languages)
        return min(map(max, of_models.values()), default=1.0)

    def _groups(self, evidences: Sequence[Weighted]) -> list[Group]:
        """The evidences by model and step; then each file of links."""
        places: dict[tuple[str, str], list[int]] = {}
        for place, (evidence, reverse, _) in enumerate(evidences):
            model = "backward" if reverse else "forward"
            places.setdefault((model, evidence.step), []).append(place)
        groups = [Group(*kind, tuple(of_group)) for kind, of_group in places.items()]
        for number in range(self.link_streams):
            groups.append(Group(EXTERNAL, str(number), (len(evidences) + number,)))
        return groups

    def _agreed(self, samples: Sequence[list[Pair]]) -> tuple[Combination, float]:
        """The layers that are chosen for each step, in every model; and how far words agree."""
        agreed = []
        least = 1.0
        for place, (aligner, pairs) in enumerate(zip(self.aligners, samples, strict=True)):
            choice = aligner.choice(pairs)
            least = min(least, choice.agreement)
            for step, layer in choice.layers.items():
                evidence = Evidence(aligner.options.method, layer, step)
                agreed.append(Weighted(evidence, reverse=bool(place)))
        return Combination(agreed), least

    def every_evidence(self) -> list[Weighted]:
        """Every layer as a whole and every head, at every step, of every model."""
        evidences = []
        for place, aligner in enumerate(self.aligners):
            for evidence in every_evidence(aligner.forcing, [aligner.options.method], heads=True):
                evidences.append(Weighted(evidence, reverse=bool(place)))
        return evidences

    def run_by(
        self,
        decision: Combination,
        streams: Sequence[Iterable[Any]],
        progress: Progress | None,
    ) -> Iterator[Soft]:
        """For ``learned``, the soft alignments are probabilities of links."""
        weights = [weighted.weight for weighted in decision.evidences]
        for example in self._examples(streams, decision.evidences, progress):
            if decision.model is not None:
                matrix = decision.model(example)
            else:
                matrix = MEANS[self.combine](example.shares, weights)
            yield Soft(matrix, np.zeros(len(matrix), matrix.dtype))

    def _examples(
        self,
        streams: Sequence[Iterable[Any]],
        evidences: Sequence[Weighted],
        progress: Progress | None,
    ) -> Iterator[Example]:
        """Each pair with its evidences, then the links of other aligners, as matrices (T, S)."""
        models = len(self.aligners)
        texts, of_forward = tee(streams[0])
        shares = []
        for place, stream in enumerate([of_forward, *streams[1:models]]):
            # The models take turns: the last one finishes a pair.
            told = progress if place == models - 1 else None
            own = [weighted.evidence for weighted in evidences if weighted.reverse == bool(place)]
            shares.append(_shares(self.aligners[place], stream, own, told))
        together = zip_longest(zip(texts, *shares, strict=True), *streams[models:])
        for number, (of_pair, *links) in enumerate(together, 1):
            if of_pair is None or None in links:
                how_many = "more" if of_pair is None else "fewer"
                raise InputError(
                    f"pair {number}: another aligner's links are of {how_many} pairs than the "
                    "corpus has"
                )
            pair, forward, *backward = of_pair
            matrices = [*forward, *(matrix.T for matrix in chain(*backward))]
            check_same_sentences(matrices, pair.where)
            shape = (len(pair.target.text), len(pair.source.text))
            matrices += [link_matrix(of_file, shape, pair.where) for of_file in links]
            yield Example(pair.source.text, pair.target.text, matrices)

    def links(self, soft: Soft) -> list[Link]:
        return self._links(soft.words)

    def confidences(self, soft: Soft, links: Sequence[Link]) -> list[float]:
        return confidences(soft.words, links)

    def signature_by(self, decision: Combination) -> dict[str, Any]:
        options = self.aligners[0].options
        learned: dict[str, Any] = {}
        if decision.model is not None:
            counted = decision.model.lexicon.pairs.total()
            learned = {"links": self.link_streams} if self.link_streams else {}
            learned["lexicon"] = counted
        return {
            "method": full_spec(options.method),
            "combine": self.combine,
            "directions": len(self.aligners),
            "evidences": len(decision.evidences),
            "chosen": "by-hand" if self.evidences else "without-gold",
            **learned,
            "eos": options.eos,
            "merge": str(options.merges),
            "extract": self.extract,
        }


def _shares(
    aligner: NormAligner,
    pairs: Iterable[Pair],
    evidences: Sequence[Evidence],
    progress: Progress | None,
) -> Iterator[list[np.ndarray]]:
    """For each pair, each evidence as shares of what the target words of its model take, (T, S)."""
    if not evidences:
        return ([] for _ in pairs)
    softs = aligner.evidences_many(pairs, evidences, progress=progress)
    return (list(map(aligner.shares, of_pair)) for of_pair in softs)


def _mutual_agreement(sample: Sequence[Example], place: int) -> float:
    """How far source and target words agree by one evidence, above chance."""
    matrices = [example.shares[place] for example in sample]
    mutual = sum(len(mutual_argmax(matrix)) for matrix in matrices)
    return above_chance(mutual, [(len(matrix), len(matrix.T)) for matrix in matrices])


def _says_something(example: Example) -> bool:
    """Whether there is something to learn from: a pair that is too long has shares of 0."""
    return any(shares.any() for shares in example.shares)
