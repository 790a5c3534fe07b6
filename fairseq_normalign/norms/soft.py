"""Soft alignments: each method turns what one attention did into a matrix (B, T, S).

A new method is one function and one line in :data:`METHODS`. ``head`` counts from 0; ``None`` takes all heads.
"""

from __future__ import annotations

from typing import Callable

from torch import Tensor

from fairseq_normalign.norms.contributions import Recorded


def weights(recorded: Recorded, head: int | None = None) -> Tensor:
    """α of one head, or averaged over heads."""
    return _mean(recorded.weights) if head is None else recorded.weights[:, head]


def norms(recorded: Recorded, head: int | None = None) -> Tensor:
    """‖α_h f_h(x)‖ of one head, or of all heads' summed vectors ‖Σ_h α_h f_h(x)‖ (Kobayashi et al., 2020)."""
    return recorded.norms.summed if head is None else recorded.norms.weighted[:, head]


def head_norms(recorded: Recorded, head: int | None = None) -> Tensor:
    """‖α_h f_h(x)‖ averaged over heads: heads that pull in opposite directions do not cancel."""
    return _mean(recorded.norms.weighted) if head is None else recorded.norms.weighted[:, head]


def _mean(by_head: Tensor) -> Tensor:
    """Over heads, of which a pruned layer may have none: then 0."""
    return by_head.sum(dim=1) / max(1, by_head.shape[1])


METHODS: dict[str, Callable[..., Tensor]] = {"weights": weights, "norms": norms, "head-norms": head_norms}
