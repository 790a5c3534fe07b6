"""Shift-Att: attention weights where the decoder reads a word (Chen et al., 2020).

The method of one model is in ``attention.methods``; an aligner here has one of each direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, product, tee
from typing import Any

import numpy as np

from fairseq_normalign.alignment.agreement import Alignments, agreement
from fairseq_normalign.alignment.aligner import Aligner, NormAligner, Progress, Text
from fairseq_normalign.alignment.layer_choice import SAMPLE
from fairseq_normalign.alignment.symmetrize import symmetrize
from fairseq_normalign.alignment.two_models import (
    check_directions,
    check_same_sentences,
    decisive_samples,
    read_both,
)
from fairseq_normalign.attention.methods import SHIFT_ATT
from fairseq_normalign.attention.soft import Evidence, Soft
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.text.links import Link

HEURISTIC, VARIANT = "grow-diag", "lilt"  # of the published code


class ShiftAttAligner(Aligner):
    """Aligns words by Shift-Att of two models of opposite directions, symmetrised.

    The layers are those whose links agree most, one of each model: no gold is needed. What is
    decided on the first pairs stays so.

    Args:
        forward: an aligner of the model that translates source to target, by ``shift-att``.
        backward: an aligner of the model that translates target to source.
    """

    def __init__(self, forward: NormAligner, backward: NormAligner):
        self.aligners = [forward, backward]
        for aligner in self.aligners:
            if aligner.options.method != SHIFT_ATT:
                raise InputError(f"method {aligner.options.method}; expected {SHIFT_ATT}")
        check_directions(self.aligners)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aligners})"

    @property
    def models(self) -> Sequence[NormAligner]:
        return self.aligners

    def read(self, pairs: Iterable[tuple[Text, Text]]) -> list[Iterable[Pair]]:
        return read_both(pairs, self.aligners)

    def decide_on(self, *streams: Iterable[Pair]) -> tuple[ShiftAttAligner, list[Iterable[Pair]]]:
        if all(aligner.evidence is not None for aligner in self.aligners):
            return self, list(streams)
        rests = [iter(stream) for stream in streams]
        first = [list(islice(rest, SAMPLE)) for rest in rests]
        layers = self._agreeing_layers(decisive_samples(self.aligners, first))
        decided = []
        for aligner, layer in zip(self.aligners, layers, strict=True):
            evidence = Evidence(SHIFT_ATT, layer, "input")
            decided.append(
                NormAligner(aligner.forcing, aligner.reader, aligner.options, evidence=evidence)
            )
        return ShiftAttAligner(*decided), list(map(chain, first, rests))

    @property
    def sample_size(self) -> int:
        return max(aligner.sample_size for aligner in self.aligners)

    def decision(self) -> dict[str, Any]:
        forward, backward = (aligner.decision() for aligner in self.aligners)
        return {"forward": forward, "backward": backward}

    def with_decision(self, decision: dict[str, Any]) -> ShiftAttAligner:
        forward, backward = self.aligners
        return ShiftAttAligner(
            forward.with_decision(decision["forward"]), backward.with_decision(decision["backward"])
        )

    def _agreeing_layers(self, samples: Sequence[list[Pair]]) -> tuple[int, int]:
        forward, backward = map(_links_by_layer, self.aligners, samples)
        swapped = {}
        for layer, alignments in backward.items():
            swapped[layer] = [_swapped(links) for links in alignments]
        return agreeing_layers(forward, swapped)

    def run(self, *streams: Iterable[Pair], progress: Progress | None = None) -> Iterator[Soft]:
        """Soft alignments that are 0 where there is no link.

        Elsewhere they are the mean of what the two words take of each other, as shares.
        """
        decided, again = self.decide_on(*streams)
        self.aligners = decided.aligners  # what was decided stays
        forward, backward = self.aligners
        pairs, again[0] = tee(again[0])
        of_forward = forward.evidences_many(again[0], [forward.place])
        of_backward = backward.evidences_many(again[1], [backward.place], progress=progress)
        both = zip(pairs, of_forward, of_backward, strict=True)
        for pair, (soft,), (reverse_soft,) in both:
            check_same_sentences([soft.words, reverse_soft.words.T], pair.where)
            yield self._symmetrized(soft, reverse_soft)

    def _symmetrized(self, soft: Soft, reverse_soft: Soft) -> Soft:
        forward, backward = self.aligners
        links = symmetrize(
            set(forward.links(soft)),
            _swapped(backward.links(reverse_soft)),
            HEURISTIC,
            variant=VARIANT,
        )
        shares = (forward.shares(soft) + backward.shares(reverse_soft).T) / 2
        linked = np.zeros_like(shares)
        for source, target in links:
            # A link is a link, even of a share that is too small for a float.
            linked[target, source] = max(shares[target, source], np.finfo(shares.dtype).tiny)
        return Soft(linked, np.zeros(len(linked), linked.dtype))

    def links(self, soft: Soft) -> list[Link]:
        targets, sources = np.nonzero(soft.words)
        return list(zip(sources.tolist(), targets.tolist(), strict=True))

    def confidences(self, soft: Soft, links: Sequence[Link]) -> list[float]:
        """For each link the mean of the shares that the two words have of each other."""
        return [float(soft.words[target, source]) for source, target in links]

    def signature(self) -> dict[str, Any]:
        forward, backward = (aligner.signature() for aligner in self.aligners)
        return {
            **forward,
            "reverse-layer": backward["layer"],
            "symmetrize": f"{HEURISTIC}:{VARIANT}",
        }


def agreeing_layers(
    forward: Mapping[int, Alignments], backward: Mapping[int, Alignments]
) -> tuple[int, int]:
    """The layers whose links agree most, (i, j) = argmin AER(A_i, B_j) (Chen et al., 2020).

    All links of B count as sure, so that AER is 1 − 2|A∩B| / (|A| + |B|); the first of equals.

    Args:
        forward: for each layer of one model the links (source, target) of some sentence pairs.
        backward: for each layer of the other one the links of the same pairs, turned round.
    """

    def agree(layers: tuple[int, int]) -> float:
        return agreement(forward[layers[0]], backward[layers[1]])

    return max(product(forward, backward), key=agree)


def _links_by_layer(aligner: NormAligner, pairs: Iterable[Pair]) -> dict[int, list[set[Link]]]:
    """Links of each layer that may be chosen: the one that the options name, or all."""
    if aligner.evidence is not None:
        evidences = [aligner.evidence]
    else:
        layers = aligner.forcing.layers_with_heads()
        evidences = [Evidence(SHIFT_ATT, layer, "input") for layer in layers]
    by_layer: dict[int, list[set[Link]]] = {evidence.layer or 0: [] for evidence in evidences}
    for softs in aligner.evidences_many(pairs, evidences):
        for links, soft in zip(by_layer.values(), softs, strict=True):
            links.append(set(aligner.links(soft)))
    return by_layer


def _swapped(links: Iterable[Link]) -> set[Link]:
    return {(target, source) for source, target in links}
