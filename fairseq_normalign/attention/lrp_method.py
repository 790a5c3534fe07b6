"""Soft alignments by relevance instead of attention, through all layers of the model."""

from __future__ import annotations

import numpy as np

from fairseq_normalign.attention.methods import Batch
from fairseq_normalign.attention.pair_relevance import relevances


def relevance(
    batch: Batch, layer: None = None, head: None = None, *, rules: str, epsilon: float
) -> np.ndarray:
    """|R| of each source token for the logit of each reference token, (B, T, S).

    Args:
        rules: a name in ``attention.lrp_rules.RULES``.
        epsilon: what keeps divisors from 0; it moves the result.
    """
    longest = max(pair.length for pair in batch.pairs)
    by_pair = relevances(
        batch.forcing,
        batch.pairs,
        rules=f"{rules}:{epsilon!r}",
        start="reference",
        max_tokens=len(batch.pairs) * longest,  # as many vectors at once as the batch has tokens
    )
    matrix = np.zeros((len(batch.pairs), longest, longest))
    for place, pair in enumerate(by_pair):
        queries, keys = pair.source.shape
        matrix[place, :queries, :keys] = np.abs(pair.source)
    return matrix
