"""Soft methods that read what one source–target attention did.

Each takes a batch, a layer and a head, and returns (B, T, S); see ``methods.Method``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from fairseq_normalign.attention.methods import Batch


def weights(batch: Batch, layer: int, head: int | None) -> Tensor:
    """α of one head, or averaged over heads."""
    recorded = batch.recording["cross", layer]
    return _mean(recorded.weights) if head is None else recorded.weights[:, head]


def norms(batch: Batch, layer: int, head: int | None) -> Tensor:
    """‖α_h f_h(x)‖ of one head, or ‖Σ_h α_h f_h(x)‖ of all (Kobayashi et al., 2020, Eq. 3)."""
    recorded = batch.recording["cross", layer]
    return recorded.norms.summed if head is None else recorded.norms.weighted[:, head]


def head_norms(batch: Batch, layer: int, head: int | None) -> Tensor:
    """‖α_h f_h(x)‖ averaged over heads: heads that pull in opposite directions do not cancel."""
    recorded = batch.recording["cross", layer]
    return _mean(recorded.norms.weighted) if head is None else recorded.norms.weighted[:, head]


def _mean(by_head: Tensor) -> Tensor:
    """The mean over heads; 0 where pruning has left none."""
    return by_head.sum(dim=1) / max(1, by_head.shape[1])
