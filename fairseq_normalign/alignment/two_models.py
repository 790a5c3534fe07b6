"""What aligners of two models of opposite directions have in common."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.language_codes import FALLBACK
from fairseq_normalign.host.special_tokens import is_multilingual, languages_of
from fairseq_normalign.host.teacher_forcing import Model


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


def _same_weights(model: Model, other: Model) -> bool:
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
