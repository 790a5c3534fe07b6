"""Numbers of a forward pass that nothing can be concluded from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fairseq_normalign.errors import InputError


def check_finite(numbers: Tensor | np.ndarray, places: Sequence[str]) -> None:
    """Refuses inf and nan, at the first sentence that has them.

    A model that overflows in half precision gives them.

    Args:
        numbers: of each sentence, (B, …).
        places: what errors call each sentence.
    """
    numbers = torch.as_tensor(numbers)
    if numbers.isfinite().all():
        return
    for of_sentence, place in zip(numbers, places, strict=True):
        if not of_sentence.isfinite().all():
            raise InputError(
                f"{place}: the model gives numbers that are not finite (inf or nan); expected "
                "finite ones: in half precision (--fp16), a model may overflow"
            )
