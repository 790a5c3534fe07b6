"""Shares of the source in decoder states by ALTI+, one array for each sentence pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fairseq_normalign.attention.arrays import Arrays, chosen
from fairseq_normalign.attention.quantities import SOURCE_SHARE
from fairseq_normalign.attention.source_shares import batch_source_shares
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing


class SourceShares(Arrays):
    """What ``alti.source_shares`` computes, for some decoder layers, to be exported.

    Args:
        forcing: of an encoder–decoder model, looking at its source–target attention.
        layers: which, from 1; all of them by default.
        dtype: of the arrays.
    """

    def __init__(
        self,
        forcing: TeacherForcing,
        *,
        layers: Sequence[int] | None = None,
        dtype: str = "float32",
    ):
        self.forcing = forcing
        self.queries, self.keys = forcing.sides
        self.dtype = np.dtype(dtype)
        self.layers = chosen("layer", layers, range(forcing.layers))

    def __call__(self, pairs: list[Pair]) -> Iterator[np.ndarray]:
        """The arrays of a batch, (L, T) each, unpadded."""
        for shares in batch_source_shares(self.forcing, pairs):
            yield shares[self.layers].astype(self.dtype)

    def shape(self, pair: Pair) -> tuple[int, ...]:
        return len(self.layers), len(pair.target.tokens)

    def description(self) -> dict:
        """What a reader of the arrays must know; layers from 1."""
        return {
            "attention": self.forcing.attention,
            "quantity": SOURCE_SHARE,
            "formula": "Σ_s M[t,s] (ALTI+)",
            "axes": ["layer", "query"],
            "query": self.queries,
            "key": self.keys,
            "layers": [layer + 1 for layer in self.layers],
            "dtype": str(self.dtype),
        }
