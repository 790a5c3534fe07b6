"""Alignments from many evidences at once: layers, heads and steps of one model, or of two of
opposite directions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice, tee
from typing import NamedTuple

import numpy as np

from fairseq_normalign.alignment.combine import MEANS, LinkModel, fit_links, geometric_mean
from fairseq_normalign.alignment.extract import extractor, relative
from fairseq_normalign.alignment.links import Link
from fairseq_normalign.alignment.soft import STEPS, Evidence
from fairseq_normalign.analysis.aligner import NormAligner, from_one
from fairseq_normalign.analysis.layer_choice import SAMPLE, decisive_pairs
from fairseq_normalign.analysis.methods import METHODS
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import Pair, text_pairs

COMBINATIONS = (*MEANS, "learned")
# cells of the chosen layers' product that count as links when a model is learned: SHARES' own
AGREED_SHARE = 0.75
# What share of its row's and its column's best a cell needs; chosen on the odd lines of the RWTH
# German–English gold.
SHARES = {"product": 0.75, "harmonic": 0.75, "mean": 0.75, "learned": 0.7}
SPEC = re.compile(r"(reverse:)?([a-z-]+)\.(\d+)(?:\.(\d+))?\.(input|output)(?:\*(\d+(?:\.\d+)?))?")


class Weighted(NamedTuple):
    """An evidence of the model, or of the reverse model, and its weight in a mean."""

    evidence: Evidence
    reverse: bool = False
    weight: float = 1.0


def parse_evidence(text: str) -> Weighted:
    """``[reverse:]METHOD.LAYER[.HEAD].STEP[*WEIGHT]``, from 1: ``norms.1.input``,
    ``reverse:norms.3.2.output*0.5``."""
    match = SPEC.fullmatch(text)
    if match is None or match[2] not in METHODS:
        raise InputError(
            f"bad evidence {text!r}; expected "
            "[reverse:]METHOD.LAYER[.HEAD].input|output[*WEIGHT] with METHOD one of: "
            f"{', '.join(METHODS)}"
        )
    head = None if match[4] is None else int(match[4]) - 1
    return Weighted(
        Evidence(match[2], int(match[3]) - 1, match[5], head), bool(match[1]), float(match[6] or 1)
    )


class CombinedAligner:
    """Aligns words by all that one model, or two models of opposite directions, know.

    Args:
        forward: an aligner of the model that translates source to target; its ``method`` and
            ``eos`` are used.
        backward: an aligner of the model that translates target to source.
        combine: ``product`` (geometric), ``harmonic`` or arithmetic ``mean`` of the evidences; or
            ``learned``: a logistic model of a link given all evidences, fitted without gold on the
            first pairs to the links that the chosen layers' product finds.
        evidences: which; by default the layers chosen for both steps for a mean, and every layer
            and head at both steps for ``learned``.
        extract: how links are taken from the combined matrix, by default cells of enough
            ``relative`` height.
    """

    def __init__(
        self,
        forward: NormAligner,
        backward: NormAligner | None = None,
        *,
        combine: str = "learned",
        evidences: Sequence[Weighted] | None = None,
        extract: str | None = None,
    ):
        if combine not in COMBINATIONS:
            raise InputError(
                f"unknown combination {combine!r}; expected one of: {', '.join(COMBINATIONS)}"
            )
        self.aligners = [forward] if backward is None else [forward, backward]
        self.combine, self.extract = combine, extract or f"relative:{SHARES[combine]}"
        self.links = extractor(self.extract)  # hard links of a combined matrix
        self.evidences = None if evidences is None else list(evidences)
        self.model: LinkModel | None = None
        self._check_evidences()

    def _check_evidences(self) -> None:
        if self.evidences and not any(weighted.weight for weighted in self.evidences):
            raise InputError("the evidences have weight 0; expected one of them to count")
        for evidence, reverse, _ in self.evidences or ():
            if reverse and len(self.aligners) == 1:
                raise InputError("an evidence of the reverse model, but there is no reverse model")
            forcing = self.aligners[reverse].forcing
            from_one("layer", evidence.layer + 1, forcing.layers)
            if evidence.head is not None:
                from_one("head", evidence.head + 1, forcing.heads)

    def align(self, source: str | Sequence[str], target: str | Sequence[str]) -> list[Link]:
        """Links of one pair; align a corpus first, or have a validation set, for something to learn
        from."""
        return next(self.align_many([(source, target)]))

    def align_many(
        self, pairs: Iterable[tuple], *, batch_tokens: int = 4000
    ) -> Iterator[list[Link]]:
        """Links of each pair (source, target) of texts, in input order.

        Layers are chosen and the model is learned on the first pairs, so it needs a corpus rather
        than a sentence; once that is done, further calls use what was found.
        """
        pairs = tee(pairs, len(self.aligners))
        streams = [text_pairs(pairs[0], self.aligners[0].reader)]
        if len(self.aligners) == 2:
            streams.append(
                text_pairs(
                    ((target, source) for source, target in pairs[1]), self.aligners[1].reader
                )
            )
        return (self.links(soft) for soft in self.soft_many(streams, batch_tokens=batch_tokens))

    def soft_many(
        self, streams: Sequence[Iterable[Pair]], *, batch_tokens: int = 4000
    ) -> Iterator[np.ndarray]:
        """The combined matrix (T, S) of each pair; for ``learned``, probabilities of links.

        Args:
            streams: the pairs as the model reads them, and, if there is a reverse model, as that
                one reads them.
        """
        streams = [iter(stream) for stream in streams]
        first = [list(islice(stream, SAMPLE)) for stream in streams]
        if not self._prepared:
            self._prepare(self._decisive(first), batch_tokens)
        streams = [chain(pairs, stream) for pairs, stream in zip(first, streams, strict=True)]
        return (
            self._combined(shares) for shares in self._shares(streams, self.evidences, batch_tokens)
        )

    def _decisive(self, first: list[list[Pair]]) -> list[list[Pair]]:
        """Pairs to decide on, the same in every direction."""
        chosen = [
            decisive_pairs(pairs, a.reader, a.forcing)
            for a, pairs in zip(self.aligners, first, strict=True)
        ]
        texts = [
            [(p.source.text, p.target.text)[:: -1 if k else 1] for p in pairs]
            for k, pairs in enumerate(chosen)
        ]
        return chosen if all(text == texts[0] for text in texts) else first

    @property
    def _prepared(self) -> bool:
        return self.evidences is not None and (self.combine != "learned" or self.model is not None)

    def _prepare(self, first: Sequence[list[Pair]], batch_tokens: int) -> None:
        """Chooses evidences, and learns to combine them, on the first pairs."""
        agreed = [
            Weighted(Evidence(aligner.method, layer, step), bool(k))
            for k, (aligner, pairs) in enumerate(zip(self.aligners, first, strict=True))
            for step, layer in aligner.choice(pairs, batch_tokens=batch_tokens).layers.items()
        ]
        if self.combine != "learned":
            self.evidences = agreed
            return
        self.evidences = self.evidences or self.every_evidence()
        means = [geometric_mean(shares) for shares in self._shares(first, agreed, batch_tokens)]
        links = [_as_matrix(relative(mean, share=AGREED_SHARE), mean.shape) for mean in means]
        self.model = fit_links(list(self._shares(first, self.evidences, batch_tokens)), links)

    def every_evidence(self) -> list[Weighted]:
        """Every layer as a whole and every head, at both steps, of every model."""
        return [
            Weighted(Evidence(aligner.method, layer, step, head), bool(k))
            for k, aligner in enumerate(self.aligners)
            for layer in range(aligner.forcing.layers)
            for head in (None, *range(aligner.forcing.heads))
            for step in STEPS
        ]

    def _shares(
        self, streams: Sequence[Iterable[Pair]], evidences: Sequence[Weighted], batch_tokens: int
    ) -> Iterator[list[np.ndarray]]:
        """For each pair, each evidence as shares of what its own target words take, (T, S) all of
        them."""
        parts = []
        for k, (aligner, stream) in enumerate(zip(self.aligners, streams, strict=True)):
            chosen = [weighted.evidence for weighted in evidences if weighted.reverse == bool(k)]
            softs = (
                aligner.evidences_many(stream, chosen, batch_tokens=batch_tokens)
                if chosen
                else ([] for _ in stream)
            )
            parts.append(map(partial(_each, aligner.shares), softs))
        for number, (forward, *backward) in enumerate(zip(*parts, strict=True), 1):
            found = forward + [shares.T for part in backward for shares in part]
            if any(shares.shape != found[0].shape for shares in found):
                raise InputError(
                    f"pair {number}: the models read different sentences; is the reverse model "
                    "of the other direction?"
                )
            yield found

    def _combined(self, shares: list[np.ndarray]) -> np.ndarray:
        if self.model is not None:
            return self.model(shares)
        ordered = sorted(
            self.evidences, key=lambda weighted: weighted.reverse
        )  # as `_shares` yields them
        return MEANS[self.combine](shares, [weighted.weight for weighted in ordered])


def _each(function, items) -> list:
    return [function(item) for item in items]


def _as_matrix(links: Sequence[Link], shape: tuple) -> np.ndarray:
    matrix = np.zeros(shape, dtype=bool)
    for source, target in links:
        matrix[target, source] = True
    return matrix
