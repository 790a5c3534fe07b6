"""Alignments from many evidences at once.

Layers, heads and steps of one model, or of two models of opposite directions, and links of other
aligners.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, tee, zip_longest
from typing import Any

import numpy as np

from fairseq_normalign.alignment.agreement import above_chance
from fairseq_normalign.alignment.aligner import Aligner, NormAligner, Progress, Text, checked_layer
from fairseq_normalign.alignment.combine import MEANS, link_matrix
from fairseq_normalign.alignment.evidence import COMBINATIONS, Weighted
from fairseq_normalign.alignment.layer_choice import (
    FEW,
    LAYER_AND_STEP,
    SAMPLE,
    decisive_pairs,
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
from fairseq_normalign.alignment.two_models import (
    check_directions,
    check_same_sentences,
    decisive_samples,
    read_both,
)
from fairseq_normalign.attention.extract import confidences, extractor, mutual_argmax
from fairseq_normalign.attention.methods import full_spec, method_of
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


class CombinedAligner(Aligner):
    """Aligns words by all that one model, or two models of opposite directions, know.

    Layers are chosen and the model is learned on the first pairs, so it needs a corpus, or a
    validation set, rather than a sentence; once that is done, further calls use what was found.
    ``decide(pairs)`` returns an aligner that has learned, for single sentences.

    Streams of pairs, one for each model, may be followed by streams of other aligners' links, sets
    of (source, target) for each pair.

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
        model: what was learned before.
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
        model: LearnedLinks | None = None,
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
        self.by_hand = bool(evidences)
        self.evidences = list(evidences) if evidences else None
        self.model = model
        self._links = extractor(self.extract)
        check_directions(self.aligners)
        self._check_evidences()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aligners}, {self.combine!r}, {self.extract!r})"

    @property
    def models(self) -> Sequence[NormAligner]:
        return self.aligners

    def _check_evidences(self) -> None:
        if self.evidences and not any(weighted.weight for weighted in self.evidences):
            raise InputError("the evidences have weight 0; expected one of them to count")
        for evidence, reverse, _ in self.evidences or ():
            if reverse and len(self.aligners) == 1:
                raise InputError("an evidence of the reverse model, but there is no reverse model")
            self._check_place(evidence, self.aligners[reverse])

    def _check_place(self, evidence: Evidence, aligner: NormAligner) -> None:
        if evidence.layer is not None:
            head = None if evidence.head is None else evidence.head + 1
            checked_layer(aligner.forcing, evidence.layer + 1, head)

    def read(self, pairs: Iterable[tuple[Text, Text]]) -> list[Iterable[Pair]]:
        return read_both(pairs, self.aligners)

    def align_many(
        self, pairs: Iterable[tuple[Text, Text]], *links: Iterable[Iterable[Link]]
    ) -> Iterator[list[Link]]:
        """Links of each pair of texts, in input order.

        Args:
            links: those of other aligners, if the aligner heeds them.
        """
        streams: list[Iterable[Any]] = [*self.read(pairs), *links]
        return self.links_many(*streams)

    def decide(
        self, pairs: Iterable[tuple[Text, Text]], *links: Iterable[Iterable[Link]]
    ) -> CombinedAligner:
        """As :meth:`Aligner.decide`; links are those of other aligners, if it heeds them."""
        streams: list[Iterable[Any]] = [*self.read(pairs), *links]
        return self.decide_on(*streams)[0]

    @property
    def _decided(self) -> bool:
        learned = self.combine != "learned" or self.model is not None
        return self.evidences is not None and learned

    def decide_on(self, *streams: Iterable[Any]) -> tuple[CombinedAligner, list[Iterable[Any]]]:
        self._check_streams(streams)
        if self._decided:
            return self, list(streams)
        rests = [iter(stream) for stream in streams]
        first = [list(islice(rest, self.sample_size)) for rest in rests]
        again: list[Iterable[Any]] = list(map(chain, first, rests))
        if self.combine == "learned":
            evidences = self.evidences or self.every_evidence()
            model, agreement = self._learned(first, evidences)
        else:
            model = None
            evidences, agreement = self._agreed_evidences(self._decisive(first))
        decided = self._decided_by(evidences, model)
        decided.agreement = agreement
        return decided, again

    def _decided_by(
        self, evidences: Sequence[Weighted], model: LearnedLinks | None
    ) -> CombinedAligner:
        decided = CombinedAligner(
            *self.aligners,
            combine=self.combine,
            evidences=evidences,
            extract=self.extract,
            links=self.link_streams,
            model=model,
        )
        decided.by_hand = self.by_hand
        return decided

    @property
    def sample_size(self) -> int:
        if self._decided:
            return 0
        return SAMPLE if self.combine != "learned" else max(SAMPLE, self.learn_pairs)

    def decision(self) -> dict[str, Any]:
        evidences = []
        for evidence, reverse, weight in self.evidences or []:
            evidences.append([evidence._asdict(), reverse, weight])
        return {"evidences": evidences, "model": self.model and self.model.as_json()}

    def with_decision(self, decision: dict[str, Any]) -> CombinedAligner:
        evidences = []
        for evidence, reverse, weight in decision["evidences"]:
            evidences.append(Weighted(Evidence(**evidence), reverse, weight))
        model = decision["model"] and LearnedLinks.from_json(decision["model"])
        if (model is not None) != (self.combine == "learned"):
            raise InputError(f"another combination; expected {self.combine}")
        if model and len(model.link_weights) != len(evidences) + self.link_streams:
            raise InputError("weights of other evidences; expected one for each")
        if model and self.lexicon and model.lexicon.as_json() != self.lexicon.as_json():
            raise InputError("what was decided has another lexicon; expected the same one")
        return self._decided_by(evidences, model)

    def _check_streams(self, streams: Sequence[Iterable[Any]]) -> None:
        expected = len(self.aligners) + self.link_streams
        if len(streams) != expected:
            raise InputError(
                f"{len(streams)} streams; expected {expected}: pairs for each of "
                f"{len(self.aligners)} models, and links of {self.link_streams} other aligners"
            )

    def _decisive(self, first: Sequence[list[Any]]) -> Sequence[list[Any]]:
        """Pairs to decide on, the same in every direction, and the links that belong to them."""
        if self.link_streams:  # which the validation set has not
            if len(first[0]) < FEW:
                warnings.warn(
                    f"weights are learned on {len(first[0])} pairs; better align {FEW} or more",
                    stacklevel=2,
                )
            return first
        if len(first) == 1:
            (aligner,) = self.aligners
            return [decisive_pairs(first[0], aligner.reader, aligner.forcing, self._what)]
        return decisive_samples(self.aligners, first, self._what)

    @property
    def _what(self) -> str:
        """What is decided, for messages."""
        return "weights" if self.combine == "learned" else LAYER_AND_STEP

    def _learned(
        self, first: Sequence[list[Any]], evidences: Sequence[Weighted]
    ) -> tuple[LearnedLinks, float]:
        """How to combine the evidences, learned on the first pairs; and how far words agree."""
        start = [pairs[:SAMPLE] for pairs in first]
        decisive = self._decisive(start)
        from_corpus = decisive[0] is start[0]
        rest = [pairs[SAMPLE:] for pairs in first] if from_corpus else first
        groups = self._groups(evidences)
        with bar("learning", total=len(decisive[0]) + len(rest[0])) as shown:
            examples = self._examples(decisive, evidences, shown.update)
            sample = list(filter(_says_something, examples))
            more = filter(_says_something, self._examples(rest, evidences, shown.update))
            model = learn_links(sample, more, groups, self.lexicon, self.learn_pairs)
        return model, self._agreement(sample, evidences)

    def _agreement(self, sample: Sequence[Example], evidences: Sequence[Weighted]) -> float:
        """That of the model whose words agree least, each by its best layer."""
        of_models: dict[bool, list[float]] = {}
        for place, (evidence, reverse, _) in enumerate(_in_order(evidences)):
            if evidence.head is None:
                of_models.setdefault(reverse, []).append(_mutual_agreement(sample, place))
        for reverse, agreements in of_models.items():
            warn_of_noise(max(agreements), len(sample), self.aligners[reverse].languages)
        return min(map(max, of_models.values()), default=1.0)

    def _groups(self, evidences: Sequence[Weighted]) -> list[Group]:
        """The evidences by model and step, in the order of ``_shares``; then each file of links."""
        places: dict[tuple[str, str], list[int]] = {}
        for place, (evidence, reverse, _) in enumerate(_in_order(evidences)):
            model = "backward" if reverse else "forward"
            places.setdefault((model, evidence.step), []).append(place)
        groups = [Group(*kind, tuple(of_group)) for kind, of_group in places.items()]
        for number in range(self.link_streams):
            groups.append(Group(EXTERNAL, str(number), (len(evidences) + number,)))
        return groups

    def _agreed_evidences(self, samples: Sequence[list[Pair]]) -> tuple[list[Weighted], float]:
        """The layers that are chosen for each step, in every model; and how far words agree."""
        agreed = []
        least = 1.0
        for place, (aligner, pairs) in enumerate(zip(self.aligners, samples, strict=True)):
            choice = aligner.choice(pairs)
            least = min(least, choice.agreement)
            for step, layer in choice.layers.items():
                evidence = Evidence(aligner.options.method, layer, step)
                agreed.append(Weighted(evidence, reverse=bool(place)))
        return agreed, least

    def every_evidence(self) -> list[Weighted]:
        """Every layer as a whole and every head, at every step, of every model."""
        evidences = []
        for place, aligner in enumerate(self.aligners):
            evidences += [Weighted(evidence, reverse=bool(place)) for evidence in _all_of(aligner)]
        return evidences

    def run(self, *streams: Iterable[Any], progress: Progress | None = None) -> Iterator[Soft]:
        """For ``learned``, the soft alignments are probabilities of links."""
        aligner, again = self.decide_on(*streams)
        self.evidences, self.model = aligner.evidences, aligner.model  # what was decided stays
        for example in self._examples(again, self.evidences or [], progress):
            matrix = self._combined(example)
            yield Soft(matrix, np.zeros(len(matrix), matrix.dtype))

    def _examples(
        self,
        streams: Sequence[Iterable[Any]],
        evidences: Sequence[Weighted],
        progress: Progress | None = None,
    ) -> Iterator[Example]:
        """Each pair with its evidences, then the links of other aligners, as matrices (T, S)."""
        forward, texts = tee(streams[0])
        of_models = [forward, *streams[1 : len(self.aligners)]]
        of_links = streams[len(self.aligners) :]
        shares = self._shares(of_models, evidences, progress)
        for pair, matrices, *links in _together(texts, shares, of_links):
            check_same_sentences(matrices, pair.where)
            shape = (len(pair.target.text), len(pair.source.text))
            known = [link_matrix(of_pair, shape, pair.where) for of_pair in links]
            yield Example(pair.source.text, pair.target.text, [*matrices, *known])

    def _shares(
        self,
        streams: Sequence[Iterable[Pair]],
        evidences: Sequence[Weighted],
        progress: Progress | None = None,
    ) -> Iterator[list[np.ndarray]]:
        """For each pair, each evidence as shares of what its own target words take, (T, S)."""
        by_model = []
        for place, stream in enumerate(streams):
            last = place == len(streams) - 1  # the models take turns: the last one finishes a pair
            counted = progress if last else None
            by_model.append(self._shares_of(place, stream, evidences, counted))
        for forward, *backward in zip(*by_model, strict=True):
            shares = list(forward)
            for reverse in backward:
                shares += [matrix.T for matrix in reverse]
            yield shares

    def _shares_of(
        self,
        place: int,
        stream: Iterable[Pair],
        evidences: Sequence[Weighted],
        progress: Progress | None,
    ) -> Iterator[list[np.ndarray]]:
        """The same of one model, as it reads the pairs."""
        aligner = self.aligners[place]
        own = [weighted.evidence for weighted in evidences if weighted.reverse == bool(place)]
        if not own:
            return ([] for _ in stream)
        softs = aligner.evidences_many(stream, own, progress=progress)
        return (list(map(aligner.shares, of_pair)) for of_pair in softs)

    def _combined(self, example: Example) -> np.ndarray:
        if self.model is not None:
            return self.model(example)
        weights = [weighted.weight for weighted in _in_order(self.evidences or [])]
        return MEANS[self.combine](example.shares, weights)

    def links(self, soft: Soft) -> list[Link]:
        return self._links(soft.words)

    def confidences(self, soft: Soft, links: Sequence[Link]) -> list[float]:
        return confidences(soft.words, links)

    def signature(self) -> dict[str, Any]:
        if not self._decided:
            raise ValueError("nothing is decided yet; expected decide(pairs) before")
        options = self.aligners[0].options
        return {
            "method": full_spec(options.method),
            "combine": self.combine,
            "directions": len(self.aligners),
            "evidences": len(self.evidences or []),
            "chosen": "by-hand" if self.by_hand else "without-gold",
            **self._learned_on(),
            "eos": options.eos,
            "merge": str(options.merges),
            "extract": self.extract,
        }

    def _learned_on(self) -> dict[str, Any]:
        """What was learned beside the weights of evidences."""
        if self.model is None:
            return {}
        counted = {"lexicon": self.model.lexicon.pairs.total()}
        return {"links": self.link_streams, **counted} if self.link_streams else counted


def _all_of(aligner: NormAligner) -> Iterator[Evidence]:
    """Every layer as a whole and every head, at every step, of one model."""
    spec = aligner.options.method
    method = method_of(spec)
    if not method.layers:
        for step in method.steps:
            yield Evidence(spec, None, step)
        return
    for layer in aligner.forcing.layers_with_heads():
        heads = aligner.forcing.head_numbers[layer] if method.heads else ()
        for head in (None, *heads):
            for step in method.steps:
                yield Evidence(spec, layer, step, head)


def _in_order(evidences: Sequence[Weighted]) -> list[Weighted]:
    """Those of the reverse model last, as ``_shares`` yields them."""
    return sorted(evidences, key=lambda weighted: weighted.reverse)


def _together(
    pairs: Iterator[Pair], shares: Iterator[list[np.ndarray]], links: Sequence[Iterable[Any]]
) -> Iterator[tuple]:
    """Pairs with their shares and links; refuses links of fewer or more pairs."""
    for number, items in enumerate(zip_longest(zip(pairs, shares, strict=True), *links), 1):
        if any(item is None for item in items):
            how_many = "fewer" if items[0] is not None else "more"
            raise InputError(
                f"pair {number}: another aligner's links are of {how_many} pairs than the corpus "
                "has"
            )
        (pair, matrices), *of_pair = items
        yield pair, matrices, *of_pair


def _mutual_agreement(sample: Sequence[Example], place: int) -> float:
    """How far source and target words agree by one evidence, above chance."""
    matrices = [example.shares[place] for example in sample]
    mutual = sum(len(mutual_argmax(matrix)) for matrix in matrices)
    return above_chance(mutual, [(len(matrix), len(matrix.T)) for matrix in matrices])


def _says_something(example: Example) -> bool:
    """Whether there is something to learn from: a pair that is too long has shares of 0."""
    return any(shares.any() for shares in example.shares)
