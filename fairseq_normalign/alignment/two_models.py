"""What aligners of two models of opposite directions have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import tee

import numpy as np
import torch

from fairseq_normalign.alignment.aligner import NormAligner, Text
from fairseq_normalign.alignment.layer_choice import LAYER_AND_STEP, decisive_pairs
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.language_codes import FALLBACK
from fairseq_normalign.host.options import ReadyModel
from fairseq_normalign.host.pairs import Pair, text_pairs
from fairseq_normalign.host.special_tokens import is_multilingual, languages_of


def check_directions(models: Sequence[NormAligner | ReadyModel]) -> None:
    """Refuses a reverse model that does not translate the other way round.

    Models that do not tell their languages are called the same, whatever they translate. A
    multilingual model may be its own reverse model.
    """
    if len(models) == 1:
        return
    model, reverse = models
    source, target = languages_of(model.reader.task)
    of_reverse = languages_of(reverse.reader.task)
    is_told = source != target and (source, target) != FALLBACK
    if is_told and (of_reverse[0] == source or of_reverse[1] == target):
        raise InputError(
            "the reverse model translates {}-{}, and the model {}-{}; expected {}-{}".format(
                *of_reverse, source, target, target, source
            )
        )
    if not is_multilingual(model.reader.task) and _same_weights(model, reverse):
        raise InputError(
            "the reverse model is the model itself, with the same weights; expected a model of "
            "the other direction"
        )


def _same_weights(model: NormAligner | ReadyModel, other: NormAligner | ReadyModel) -> bool:
    weights, others = (one.forcing.model.state_dict() for one in (model, other))
    return weights.keys() == others.keys() and all(
        torch.equal(values, others[name]) for name, values in weights.items()
    )


def check_same_sentences(matrices: Sequence[np.ndarray], where: str) -> None:
    """Refuses what two models say of different sentences."""
    if any(matrix.shape != matrices[0].shape for matrix in matrices):
        raise InputError(
            f"{where}: the models read different sentences; is the reverse model of the other "
            "direction?"
        )


def read_both(
    pairs: Iterable[tuple[Text, Text]], aligners: Sequence[NormAligner]
) -> list[Iterable[Pair]]:
    """Pairs of texts (source, target) as each model reads them, be it one or two."""
    if len(aligners) == 1:
        return [text_pairs(pairs, aligners[0].reader)]
    forward, backward = tee(pairs)
    swapped = ((target, source) for source, target in backward)
    return [text_pairs(forward, aligners[0].reader), text_pairs(swapped, aligners[1].reader)]


def decisive_samples(
    aligners: Sequence[NormAligner], first: Sequence[list[Pair]], what: str = LAYER_AND_STEP
) -> Sequence[list[Pair]]:
    """Pairs to decide on, the same in both directions: see ``layer_choice.decisive_pairs``.

    Args:
        first: the first pairs of the corpus, as each model reads them.
        what: is decided, for messages.
    """
    samples = [
        decisive_pairs(pairs, aligner.reader, aligner.forcing, what)
        for aligner, pairs in zip(aligners, first, strict=True)
    ]
    forward = [(pair.source.text, pair.target.text) for pair in samples[0]]
    backward = [(pair.target.text, pair.source.text) for pair in samples[1]]
    return samples if forward == backward else first
