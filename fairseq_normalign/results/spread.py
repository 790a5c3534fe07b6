"""Numbers of several models, as of several seeds: their mean and how far they scatter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class Spread(NamedTuple):
    """The mean of some numbers, and their sample deviation (n − 1); one number has none."""

    mean: float
    deviation: float | None = None

    def __format__(self, form: str) -> str:
        """``37.2 ±0.8`` for ``.1f``; ``37.2`` of one number."""
        mean = format(self.mean, form)
        if self.deviation is None:
            return mean
        return f"{mean} ±{format(self.deviation, form.removeprefix('+'))}"


def spread(values: Iterable[float]) -> Spread:
    """Mean and deviation of one number or more."""
    numbers = list(values)
    deviation = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None
    return Spread(float(np.mean(numbers)), deviation)
