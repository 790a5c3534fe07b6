"""Shift-Att: attention weights where the decoder reads a word (Chen et al., 2020).

The method of one model is in ``attention.methods``; an aligner here has one of each direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product, tee
from typing import Any

import numpy as np

from fairseq_normalign.alignment.aligner import NormAligner, OpenAligner, Progress
from fairseq_normalign.alignment.combine import as_matrix
from fairseq_normalign.alignment.combined import check_directions, check_same_sentences
from fairseq_normalign.alignment.decision import Decision
from fairseq_normalign.alignment.evidence import NONE, every_evidence
from fairseq_normalign.alignment.layer_choice import Alignments, agreement, decisive_samples
from fairseq_normalign.alignment.symmetrize import swapped, symmetrize
from fairseq_normalign.attention.extract import absolute
from fairseq_normalign.attention.methods import SHIFT_ATT
from fairseq_normalign.attention.soft import Evidence, Soft
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.text.links import Link

HEURISTIC, VARIANT = "grow-diag", "lilt"  # of the published code


class ShiftAttAligner(OpenAligner):
    """Aligns words by Shift-Att of two models of opposite directions, symmetrised.

    The layers are those whose links agree most, one of each model: no gold is needed. What is
    decided on the first pairs stays so.

    Args:
        forward: an aligner of the model that translates source to target, by ``shift-att``.
        backward: an aligner of the model that translates target to source.
    """

    def __init__(self, forward: NormAligner, backward: NormAligner):
        self.models = [forward, backward]
        self.forcing, self.reader = forward.forcing, forward.reader
        for aligner in self.models:
            if aligner.options.method != SHIFT_ATT:
                raise InputError(f"method {aligner.options.method}; expected {SHIFT_ATT}")
        check_directions(self.models)
        if forward.evidence and backward.evidence:
            self.remembered = _decision(forward.evidence.layer, backward.evidence.layer)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.models})"

    def decision_on(self, first: Sequence[list[Pair]]) -> Decision:
        samples = decisive_samples(self.models, first)
        forward, backward = map(_links_by_layer, self.models, samples)
        turned = {layer: list(map(swapped, links)) for layer, links in backward.items()}
        return _decision(*agreeing_layers(forward, turned), pairs=len(samples[0]))

    def run_by(
        self, decision: Decision, streams: Sequence[Iterable[Pair]], progress: Progress | None
    ) -> Iterator[Soft]:
        """Soft alignments that are 0 where there is no link.

        Elsewhere they are the mean of what the two words take of each other, as shares.
        """
        forward, backward = self.models
        pairs, again = tee(streams[0])
        place, of_reverse = decision.evidences
        of_forward = forward.evidences_many(again, [place])
        of_backward = backward.evidences_many(streams[1], [of_reverse], progress=progress)
        for pair, (soft,), (reverse,) in zip(pairs, of_forward, of_backward, strict=True):
            check_same_sentences([soft.words, reverse.words.T], pair.where)
            yield self._symmetrized(soft, reverse)

    def _symmetrized(self, soft: Soft, reverse: Soft) -> Soft:
        forward, backward = self.models
        links = symmetrize(
            set(forward.links(soft)), swapped(backward.links(reverse)), HEURISTIC, variant=VARIANT
        )
        shares = (forward.shares(soft) + backward.shares(reverse).T) / 2
        # A link is a link, even of a share that is too small for a float.
        positive = np.maximum(shares, np.finfo(shares.dtype).tiny)
        linked = positive * as_matrix(links, shares.shape)
        return Soft(linked, np.zeros(len(linked), linked.dtype), texts=soft.texts)

    def links_by(self, decision: Decision, soft: Soft) -> list[Link]:
        return absolute(soft.words, level=0)

    def shares_by(self, decision: Decision, soft: Soft) -> np.ndarray:
        """The mean of the shares that two linked words have of each other."""
        return soft.words

    def signature_by(self, decision: Decision) -> dict[str, Any]:
        of_each = [decision._replace(evidences=[evidence]) for evidence in decision.evidences]
        forward, backward = map(NormAligner.signature_by, self.models, of_each)
        return {
            **forward,
            "reverse-layer": backward["layer"],
            "symmetrize": f"{HEURISTIC}:{VARIANT}",
        }


def _decision(layer: int | None, of_reverse: int | None, *, pairs: int = 0) -> Decision:
    place = Evidence(SHIFT_ATT, layer, "input")
    return Decision(NONE, [place, place._replace(layer=of_reverse, reverse=True)], pairs=pairs)


def agreeing_layers(
    forward: Mapping[int, Alignments], backward: Mapping[int, Alignments]
) -> tuple[int, int]:
    """The layers whose links agree most, (i, j) = argmin AER(A_i, B_j) (Chen et al., 2020).

    All links of B count as sure, so that AER is 1 − 2|A∩B| / (|A| + |B|); the first of equals.

    Args:
        forward: for each layer of one model the links (source, target) of some sentence pairs.
        backward: for each layer of the other one the links of the same pairs, turned round.
    """
    agreements = {}
    for i, j in product(forward, backward):
        agreements[i, j] = agreement(forward[i], backward[j])
    return max(agreements, key=agreements.__getitem__)


def _links_by_layer(aligner: NormAligner, pairs: Iterable[Pair]) -> dict[int, list[set[Link]]]:
    """Links of each layer that may be chosen: the one that the options name, or all."""
    evidences = every_evidence(aligner.forcing, [SHIFT_ATT], heads=False)
    if aligner.evidence is not None:
        evidences = [aligner.evidence]
    by_layer: dict[int, list[set[Link]]] = {evidence.layer or 0: [] for evidence in evidences}
    for softs in aligner.evidences_many(pairs, evidences):
        for links, soft in zip(by_layer.values(), softs, strict=True):
            links.append(set(aligner.links(soft)))
    return by_layer
