"""Alignments from many evidences at once.

Layers, heads and steps of one model, or of two models of opposite directions, and links of other
aligners.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress, repeat, tee, zip_longest
from operator import attrgetter
from typing import Any

import numpy as np
import torch

from fairseq_normalign.alignment.aligner import NormAligner, OpenAligner, Progress
from fairseq_normalign.alignment.bitext import Bitext, bitext_of
from fairseq_normalign.alignment.combine import MEANS, link_matrix
from fairseq_normalign.alignment.decision import Decision
from fairseq_normalign.alignment.evidence import AUTO, COMBINATIONS, LEARNED, every_evidence
from fairseq_normalign.alignment.layer_choice import (
    FEW,
    SAMPLE,
    above_chance,
    decisive_samples,
    warn_of_noise,
)
from fairseq_normalign.alignment.learned import EXTERNAL, Example, Group, learn_links
from fairseq_normalign.attention.extract import extractor, mutual_argmax, row_shares
from fairseq_normalign.attention.methods import full_spec
from fairseq_normalign.attention.soft import Evidence, Soft
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.special_tokens import FALLBACK, is_multilingual, languages_of
from fairseq_normalign.host.teacher_forcing import Model
from fairseq_normalign.progress import bar
from fairseq_normalign.text.links import Link

# How links are taken from a combined matrix; chosen on the odd lines of the RWTH German–English
# gold.
EXTRACT = {**dict.fromkeys(MEANS, "relative:0.75"), LEARNED: "absolute:0.5"}
# Of few pairs. On the odd lines of the same gold, 5 at a time, product has an AER of 34 with one
# model and 28 with two; learned 40 and 33, and the one layer and step that is chosen 41.
OF_FEW = "product"
LEARN_PAIRS = 2000  # that the lexicon is counted in
WARNINGS = {  # of few pairs
    AUTO: "aligned by the product of the layers that look best; for learned weights, use --learned "
    "FILE, or align",
    LEARNED: "to learn weights well, align",
    **dict.fromkeys(MEANS, "to choose layers well, align"),
}


class CombinedAligner(OpenAligner):
    """Aligns words by all soft alignments of one model, or of two models of opposite directions.

    Layers are chosen and the model is learned on the first pairs, so it needs a corpus, or a
    validation set, rather than a sentence; once that is done, further calls use what was found.
    ``decide(pairs)`` returns an aligner that has learned, for single sentences.

    Args:
        forward: an aligner of the model that translates source to target; its ``method``, ``eos``
            and merges are used.
        backward: an aligner of the model that translates target to source.
        combine: ``product`` (geometric), ``harmonic`` or arithmetic ``mean`` of the evidences; or
            ``learned``: the probability of a link given all evidences and what the corpus says,
            learned without gold on the first pairs (see ``alignment.learned``); or ``auto``:
            ``learned`` on 100 pairs or more, else ``product``.
        evidences: the soft alignments to combine; by default every layer and head at both steps
            for ``learned``, and the layers chosen for both steps for a mean.
        extract: how links are taken from the combined matrix, by default ``relative`` of a mean and
            ``absolute`` of what was learned.
        links: how many streams of links of other aligners there are; for ``learned`` only.
        learn_pairs: in how many of the first pairs the lexicon is counted.
        bitext: files of further translated text to learn from, of source and of target, or one of
            lines ``source ||| target``; for ``learned`` only.
        corpus: the files that are aligned; if they are large, they serve as bitext, too.
    """

    def __init__(
        self,
        forward: NormAligner,
        backward: NormAligner | None = None,
        *,
        combine: str = LEARNED,
        evidences: Sequence[Evidence] | None = None,
        extract: str | None = None,
        links: int = 0,
        learn_pairs: int = LEARN_PAIRS,
        bitext: Sequence[str] = (),
        corpus: Sequence[str] = (),
    ):
        if combine not in COMBINATIONS:
            expected = ", ".join(COMBINATIONS)
            raise InputError(f"unknown combination {combine!r}; expected one of: {expected}")
        if (links or bitext) and combine in MEANS:
            what = "links of other aligners" if links else "bitext"
            raise InputError(f"{what}: needs combination learned, not {combine}")
        self.models = [forward] if backward is None else [forward, backward]
        self.forcing, self.reader = forward.forcing, forward.reader
        self.combine = LEARNED if links or bitext else combine
        self.link_streams, self.learn_pairs = links, learn_pairs
        self.bitext, self.corpus = bitext, corpus
        self.extract = extract
        extractor(extract or "relative")  # a combination has no pieces
        check_directions(self.models)
        self.evidences = self._checked(evidences) if evidences else None
        if self.combine not in MEANS:
            self.decided_on = max(SAMPLE, learn_pairs)
        elif self.evidences:
            self.remembered = Decision(combine, self.evidences)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.models}, {self.combine!r}, {self.extract!r})"

    def _checked(self, evidences: Sequence[Evidence]) -> list[Evidence]:
        """Evidences that the models have, those of the reverse model last."""
        if not any(evidence.weight for evidence in evidences):
            raise InputError("the evidences have weight 0; expected one of them to count")
        for evidence in evidences:
            if evidence.reverse and len(self.models) == 1:
                raise InputError("an evidence of the reverse model, but there is no reverse model")
            self.models[evidence.reverse].check(evidence)
        return sorted(evidences, key=attrgetter("reverse"))

    def decision_on(self, first: Sequence[list[Any]]) -> Decision:
        start = [pairs[:SAMPLE] for pairs in first]
        decisive = decisive_samples(self.models, start, WARNINGS[self.combine])
        is_few = len(decisive[0]) < FEW
        if self.combine in MEANS or (self.combine == AUTO and is_few):
            return self._mean_of(decisive)
        from_corpus = decisive[0] is start[0]
        return self._learned(
            decisive, [pairs[SAMPLE:] for pairs in first] if from_corpus else first
        )

    def _learned(self, decisive: Sequence[list[Any]], rest: Sequence[list[Any]]) -> Decision:
        """How to combine all evidences, learned on some pairs; a lexicon is counted in the rest."""
        evidences = self.evidences or self.every_evidence()
        groups = self._groups(evidences)
        first = list(map(_words, chain(decisive[0], rest[0])))
        bitext = bitext_of(self.bitext, self.corpus, first)
        with bar("learning", total=len(first)) as shown:
            examples = self._examples(decisive, evidences, shown.update, bitext)
            sample = list(filter(_says_something, examples))
            more = filter(_says_something, self._examples(rest, evidences, shown.update))
            model = learn_links(sample, more, groups, self.learn_pairs, bitext)
        agreement = self._agreement(sample, evidences)
        return Decision(LEARNED, evidences, model, len(sample), agreement)

    def agreement_on(self, decision: Decision, first: Sequence[list[Any]]) -> float:
        sample = list(filter(_says_something, self._examples(first, decision.evidences, None)))
        return self._agreement(sample, decision.evidences)

    def _agreement(self, sample: Sequence[Example], evidences: Sequence[Evidence]) -> float:
        """That of the model whose words agree least, each by its best layer."""
        of_models: dict[bool, list[float]] = {}
        for place, evidence in enumerate(evidences):
            if evidence.head is None:
                of_models.setdefault(evidence.reverse, []).append(_mutual_agreement(sample, place))
        for reverse, agreements in of_models.items():
            warn_of_noise(max(agreements), len(sample), self.models[reverse].languages)
        return min(map(max, of_models.values()), default=1.0)

    def _groups(self, evidences: Sequence[Evidence]) -> list[Group]:
        """The evidences by model and step; then each file of links."""
        places: dict[tuple[str, str], list[int]] = {}
        for place, evidence in enumerate(evidences):
            model = "backward" if evidence.reverse else "forward"
            places.setdefault((model, evidence.step), []).append(place)
        groups = [Group(*kind, tuple(of_group)) for kind, of_group in places.items()]
        for number in range(self.link_streams):
            groups.append(Group(EXTERNAL, str(number), (len(evidences) + number,)))
        return groups

    def _mean_of(self, samples: Sequence[list[Pair]]) -> Decision:
        """The layers that are chosen for each step, in every model."""
        combine = OF_FEW if self.combine == AUTO else self.combine
        agreed = []
        least = 1.0
        for place, (aligner, pairs) in enumerate(zip(self.models, samples, strict=True)):
            chosen, agreement = aligner.chosen(pairs)
            least = min(least, agreement)
            agreed += [evidence._replace(reverse=bool(place)) for evidence in chosen]
        return Decision(combine, self.evidences or agreed, None, len(samples[0]), least)

    def every_evidence(self) -> list[Evidence]:
        """Every layer as a whole and every head, at every step, of every model."""
        evidences = []
        for place, aligner in enumerate(self.models):
            for evidence in every_evidence(aligner.forcing, [aligner.options.method], heads=True):
                evidences.append(evidence._replace(reverse=bool(place)))
        return evidences

    def run_by(
        self, decision: Decision, streams: Sequence[Iterable[Any]], progress: Progress | None
    ) -> Iterator[Soft]:
        """For ``learned``, the soft alignments are probabilities of links."""
        evidences, model = decision.evidences, decision.model
        weights = [evidence.weight for evidence in evidences]
        if model is not None:  # what has no weight is not computed
            counts = [*model.counts[: len(evidences)], *repeat(True, self.link_streams)]
            evidences = list(compress(evidences, counts))
            model = model.of(counts)
        bitext = model and model.bitext
        for example in self._examples(streams, evidences, progress, bitext):
            if model is not None:
                matrix = model(example)
            else:
                matrix = MEANS[decision.combine](example.shares, weights)
            null = np.zeros(len(matrix), matrix.dtype)
            yield Soft(matrix, null, texts=(example.source, example.target))

    def _examples(
        self,
        streams: Sequence[Iterable[Any]],
        evidences: Sequence[Evidence],
        progress: Progress | None,
        bitext: Bitext | None = None,
    ) -> Iterator[Example]:
        """Each pair with its evidences, then the links of other aligners."""
        models = len(self.models)
        texts, of_forward = tee(streams[0])
        counted: Iterable[Sequence[np.ndarray]] = repeat(())
        if bitext is not None:
            texts, of_bitext = tee(texts)
            counted = bitext.links(map(_words, of_bitext))
        shares = []
        for place, stream in enumerate([of_forward, *streams[1:models]]):
            # The models take turns: the last one finishes a pair.
            shown = progress if place == models - 1 else None
            own = [evidence for evidence in evidences if evidence.reverse == bool(place)]
            shares.append(_shares(self.models[place], stream, own, shown))
        pairs = zip(zip(texts, *shares, strict=True), counted, strict=False)
        together = zip_longest(pairs, *streams[models:])
        for number, (of_pair, *links) in enumerate(together, 1):
            if of_pair is None or None in links:
                how_many = "more" if of_pair is None else "fewer"
                raise InputError(
                    f"pair {number}: another aligner's links are of {how_many} pairs than the "
                    "corpus has"
                )
            (pair, forward, *backward), by_bitext = of_pair
            matrices = [forward, *(of_reverse.swapaxes(1, 2) for of_reverse in backward)]
            check_same_sentences(matrices, pair.where)
            shape = (len(pair.target.text), len(pair.source.text))
            where = f"another aligner's links, {pair.where}"
            matrices += [link_matrix(of_file, shape, where)[None] for of_file in links]
            evidence = np.concatenate(matrices)
            yield Example(pair.source.text, pair.target.text, evidence, by_bitext)

    def links_by(self, decision: Decision, soft: Soft) -> list[Link]:
        return extractor(self.extract or EXTRACT[decision.combine])(soft.words)

    def shares_by(self, decision: Decision, soft: Soft) -> np.ndarray:
        return row_shares(soft.words) if decision.model is None else soft.words

    def signature_by(self, decision: Decision) -> dict[str, Any]:
        options = self.models[0].options
        learned: dict[str, Any] = {}
        if decision.model is not None:
            learned = {"links": self.link_streams} if self.link_streams else {}
            learned["lexicon"] = decision.model.lexicon.pairs.total()
            learned["null"] = decision.model.null
            if decision.model.bitext is not None:
                learned["bitext"] = decision.model.bitext.pairs
        return {
            "method": full_spec(options.method),
            "combine": decision.combine,
            "directions": len(self.models),
            "evidences": len(decision.evidences),
            "chosen": "by-hand" if self.evidences else "without-gold",
            **learned,
            "eos": options.eos,
            "merge": options.merges,
            "extract": self.extract or EXTRACT[decision.combine],
        }


def _words(pair: Pair) -> tuple[Sequence[str], Sequence[str]]:
    return pair.source.text, pair.target.text


def _shares(
    aligner: NormAligner,
    pairs: Iterable[Pair],
    evidences: Sequence[Evidence],
    progress: Progress | None,
) -> Iterator[np.ndarray]:
    """Evidences as shares of what target words of a model take, (E, T, S) for each pair."""
    if not evidences:
        return (np.zeros((0, len(pair.target.text), len(pair.source.text))) for pair in pairs)
    return aligner.shares_many(pairs, evidences, progress=progress)


def _mutual_agreement(sample: Sequence[Example], place: int) -> float:
    """How far source and target words agree by one evidence, above chance."""
    matrices = [example.shares[place] for example in sample]
    mutual = sum(len(mutual_argmax(matrix)) for matrix in matrices)
    return above_chance(mutual, [(len(matrix), len(matrix.T)) for matrix in matrices])


def _says_something(example: Example) -> bool:
    """Whether there is something to learn from: a pair that is too long has shares of 0."""
    return bool(np.any(example.shares))


def check_directions(models: Sequence[Model]) -> None:
    """Refuses a reverse model that does not translate the other way round.

    Models that do not tell their languages are called the same, whatever they translate. A
    multilingual model may be its own reverse model.
    """
    if len(models) == 1:
        return
    model, reverse = models
    source, target = languages_of(model.reader.task)
    of_reverse = languages_of(reverse.reader.task)
    is_named = source != target and (source, target) != FALLBACK
    is_other = {source, target} & {*of_reverse} and of_reverse != (target, source)
    if is_named and is_other:
        raise InputError(
            "the reverse model translates {} → {}, and the model {} → {}; use {} → {}".format(
                *of_reverse, source, target, target, source
            )
        )
    if not is_multilingual(model.reader.task) and _same_weights(model, reverse):
        raise InputError(
            "the reverse model is the model itself, with the same weights; expected a model of "
            "the other direction"
        )


def _same_weights(model: Model, other: Model) -> bool:
    weights, others = (one.forcing.model.state_dict() for one in (model, other))
    return weights.keys() == others.keys() and all(
        torch.equal(values, others[name]) for name, values in weights.items()
    )


def check_same_sentences(matrices: Sequence[np.ndarray], where: str) -> None:
    """Refuses what two models say of different sentences."""
    if any(matrix.shape[-2:] != matrices[0].shape[-2:] for matrix in matrices):
        raise InputError(
            f"{where}: the models read different sentences; is the reverse model of the other "
            "direction?"
        )
