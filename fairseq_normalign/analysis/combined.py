"""Alignments from many evidences at once.

Layers, heads and steps of one model, or of two models of opposite directions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, tee
from typing import Any

import numpy as np

from fairseq_normalign.alignment.combine import MEANS, LinkModel, fit_links, geometric_mean
from fairseq_normalign.alignment.extract import confidences, extractor, relative
from fairseq_normalign.alignment.links import Link
from fairseq_normalign.alignment.soft import Evidence, Soft
from fairseq_normalign.analysis.aligner import Aligner, NormAligner, Progress, Text, checked_layer
from fairseq_normalign.analysis.evidence import COMBINATIONS, Weighted
from fairseq_normalign.analysis.layer_choice import SAMPLE, decisive_pairs
from fairseq_normalign.analysis.methods import full_spec, method_of
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import Pair, text_pairs
from fairseq_normalign.host.special_tokens import languages_of

# Cells of the chosen layers' product that count as links when a model is learned: its own share.
AGREED_SHARE = 0.75
# What share of its row's and its column's best a cell needs; chosen on the odd lines of the RWTH
# German–English gold.
SHARES = {"product": 0.75, "harmonic": 0.75, "mean": 0.75, "learned": 0.7}


class CombinedAligner(Aligner):
    """Aligns words by all that one model, or two models of opposite directions, know.

    Layers are chosen and the model is learned on the first pairs, so it needs a corpus, or a
    validation set, rather than a sentence; once that is done, further calls use what was found.

    Args:
        forward: an aligner of the model that translates source to target; its ``method``, ``eos``
            and merges are used.
        backward: an aligner of the model that translates target to source.
        combine: ``product`` (geometric), ``harmonic`` or arithmetic ``mean`` of the evidences; or
            ``learned``: a logistic model of a link given all evidences, fitted without gold on the
            first pairs to the links that the chosen layers' product finds.
        evidences: which; by default the layers chosen for both steps for a mean, and every layer
            and head at both steps for ``learned``.
        extract: how links are taken from the combined matrix, by default cells of enough
            ``relative`` height.
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
        model: LinkModel | None = None,
    ):
        if combine not in COMBINATIONS:
            expected = ", ".join(COMBINATIONS)
            raise InputError(f"unknown combination {combine!r}; expected one of: {expected}")
        self.aligners = [forward] if backward is None else [forward, backward]
        self.combine = combine
        self.extract = extract or f"relative:{SHARES[combine]}"
        self.by_hand = evidences is not None
        self.evidences = None if evidences is None else list(evidences)
        self.model = model
        self._links = extractor(self.extract)
        self._check_directions()
        self._check_evidences()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aligners}, {self.combine!r}, {self.extract!r})"

    @property
    def models(self) -> Sequence[NormAligner]:
        return self.aligners

    def _check_directions(self) -> None:
        """Refuses a reverse model that translates as the other one does."""
        (source, target), *reverse = [languages_of(aligner.reader.task) for aligner in self.models]
        if reverse == [(source, target)] and source != target:
            raise InputError(
                f"the reverse model translates {source}-{target}, as the model does; expected "
                f"{target}-{source}"
            )

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
        forward, backward = tee(pairs)
        streams: list[Iterable[Pair]] = [text_pairs(forward, self.aligners[0].reader)]
        if len(self.aligners) == 2:
            swapped = ((target, source) for source, target in backward)
            streams.append(text_pairs(swapped, self.aligners[1].reader))
        return streams

    @property
    def _decided(self) -> bool:
        learned = self.combine != "learned" or self.model is not None
        return self.evidences is not None and learned

    def decide(self, *streams: Iterable[Pair]) -> tuple[CombinedAligner, list[Iterable[Pair]]]:
        if self._decided:
            return self, list(streams)
        rests = [iter(stream) for stream in streams]
        first = [list(islice(rest, SAMPLE)) for rest in rests]
        again: list[Iterable[Pair]] = list(map(chain, first, rests))
        evidences, model = self._learned(self._decisive(first))
        decided = CombinedAligner(
            *self.aligners,
            combine=self.combine,
            evidences=evidences,
            extract=self.extract,
            model=model,
        )
        decided.by_hand = self.by_hand
        return decided, again

    def _decisive(self, first: list[list[Pair]]) -> list[list[Pair]]:
        """Pairs to decide on, the same in every direction."""
        samples = [
            decisive_pairs(pairs, aligner.reader, aligner.forcing)
            for aligner, pairs in zip(self.aligners, first, strict=True)
        ]
        if len(samples) == 1:
            return samples
        forward = [(pair.source.text, pair.target.text) for pair in samples[0]]
        backward = [(pair.target.text, pair.source.text) for pair in samples[1]]
        return samples if forward == backward else first

    def _learned(self, samples: list[list[Pair]]) -> tuple[list[Weighted], LinkModel | None]:
        """Evidences, and how to combine them, found on a sample of pairs."""
        agreed = self._agreed_evidences(samples)
        if self.combine != "learned":
            return agreed, None
        evidences = self.evidences or self.every_evidence()
        links = []
        for shares in self._shares(samples, agreed):
            mean = geometric_mean(shares)
            links.append(_as_matrix(relative(mean, share=AGREED_SHARE), mean.shape))
        return evidences, fit_links(list(self._shares(samples, evidences)), links)

    def _agreed_evidences(self, samples: list[list[Pair]]) -> list[Weighted]:
        """The layers that are chosen for each step, in every model."""
        agreed = []
        for place, (aligner, pairs) in enumerate(zip(self.aligners, samples, strict=True)):
            for step, layer in aligner.choice(pairs).layers.items():
                evidence = Evidence(aligner.options.method, layer, step)
                agreed.append(Weighted(evidence, reverse=bool(place)))
        return agreed

    def every_evidence(self) -> list[Weighted]:
        """Every layer as a whole and every head, at every step, of every model."""
        evidences = []
        for place, aligner in enumerate(self.aligners):
            evidences += [Weighted(evidence, reverse=bool(place)) for evidence in _all_of(aligner)]
        return evidences

    def run(self, *streams: Iterable[Pair], progress: Progress | None = None) -> Iterator[Soft]:
        """For ``learned``, the soft alignments are probabilities of links."""
        aligner, again = self.decide(*streams)
        self.evidences, self.model = aligner.evidences, aligner.model  # what was decided stays
        for shares in self._shares(again, self.evidences or [], progress):
            matrix = self._combined(shares)
            yield Soft(matrix, np.zeros(len(matrix), matrix.dtype))

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
        for number, (forward, *backward) in enumerate(zip(*by_model, strict=True), 1):
            shares = list(forward)
            for reverse in backward:
                shares += [matrix.T for matrix in reverse]
            if any(matrix.shape != shares[0].shape for matrix in shares):
                raise InputError(
                    f"pair {number}: the models read different sentences; is the reverse model of "
                    "the other direction?"
                )
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

    def _combined(self, shares: list[np.ndarray]) -> np.ndarray:
        if self.model is not None:
            return self.model(shares)
        # `_shares` yields those of the reverse model last.
        ordered = sorted(self.evidences or [], key=lambda weighted: weighted.reverse)
        weights = [weighted.weight for weighted in ordered]
        return MEANS[self.combine](shares, weights)

    def links(self, soft: Soft) -> list[Link]:
        return self._links(soft.words)

    def confidences(self, soft: Soft, links: Sequence[Link]) -> list[float]:
        return confidences(soft.words, links)

    def signature(self) -> dict[str, Any]:
        if not self._decided:
            raise ValueError("nothing is decided yet; expected decide(*streams) before")
        options = self.aligners[0].options
        return {
            "method": full_spec(options.method),
            "combine": self.combine,
            "directions": len(self.aligners),
            "evidences": len(self.evidences or []),
            "chosen": "by-hand" if self.by_hand else "without-gold",
            "eos": options.eos,
            "merge": str(options.merges),
            "extract": self.extract,
        }


def _all_of(aligner: NormAligner) -> Iterator[Evidence]:
    """Every layer as a whole and every head, at every step, of one model."""
    spec = aligner.options.method
    method = method_of(spec)
    if not method.layers:
        for step in method.steps:
            yield Evidence(spec, None, step)
        return
    for layer in aligner.forcing.layers_with_heads():
        for head in (None, *aligner.forcing.head_numbers[layer]):
            for step in method.steps:
                yield Evidence(spec, layer, step, head)


def _as_matrix(links: Sequence[Link], shape: tuple[int, ...]) -> np.ndarray:
    matrix = np.zeros(shape, dtype=bool)
    for source, target in links:
        matrix[target, source] = True
    return matrix
