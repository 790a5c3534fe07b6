"""Means of all heads of a model, as batches come."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from fairseq_normalign.heads.names import Head


class Tally:
    """Sums by head and numbers of cases, for each attention (kind, layer)."""

    def __init__(self) -> None:
        self.sums: dict[tuple, np.ndarray | float] = defaultdict(float)
        self.cases: dict[tuple, int] = defaultdict(int)

    def add(self, attention: tuple[str, int], sums, cases: int) -> None:
        """Adds sums of the attention's heads, (H,), over some more cases."""
        self.sums[attention] = self.sums[attention] + np.asarray(sums, dtype=np.float64)
        self.cases[attention] += cases

    def means(self) -> dict[Head, float]:
        """The mean of every head that had a case."""
        means = {}
        for attention, sums in self.sums.items():
            cases = self.cases[attention]
            if cases:
                means.update(
                    {
                        Head(*attention, head): float(total) / cases
                        for head, total in enumerate(sums)
                    }
                )
        return means
