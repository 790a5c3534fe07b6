"""Means of all heads of a model, as batches come."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from fairseq_normalign.names import Head


class Tally:
    """Sums by head and numbers of cases, for each attention (kind, layer)."""

    KEPT = ("sums", "cases")

    def __init__(self) -> None:
        self.sums: dict[tuple[str, int], np.ndarray] = {}
        self.cases: dict[tuple[str, int], int] = defaultdict(int)

    def add(self, attention: tuple[str, int], sums, cases: int) -> None:
        """Adds sums of the attention's heads, (H,), over some more cases."""
        sums = np.asarray(sums, dtype=np.float64)
        before = self.sums.get(attention, np.zeros(len(sums)))
        self.sums[attention] = before + sums
        self.cases[attention] += cases

    def means(self) -> dict[Head, float]:
        """The mean of every head that had a case."""
        means = {}
        for (kind, layer), sums in self.sums.items():
            cases = self.cases[kind, layer]
            if cases:
                for head, total in enumerate(sums):
                    means[Head(kind, layer, head)] = float(total) / cases
        return means
