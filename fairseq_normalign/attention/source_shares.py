"""Soft methods by contributions to what a block hands on: ALTI and ALTI+ (Ferrando et al., 2022).

Each takes a batch, a layer and a head, and returns (B, T, S); see ``methods.Method``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from fairseq_normalign.attention.alti import Rollout, contributions, head_block
from fairseq_normalign.attention.arrays import Arrays, chosen
from fairseq_normalign.attention.block_recorder import recorded_blocks
from fairseq_normalign.attention.finite import check_finite
from fairseq_normalign.attention.methods import Batch
from fairseq_normalign.attention.quantities import SOURCE_SHARE
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.batches import Progress, map_batches
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.names import KINDS

# Of the batches at hand: their layers share what lies below.
_ROLLOUTS: WeakKeyDictionary[Batch, Rollout] = WeakKeyDictionary()


def contribution(batch: Batch, layer: int, head: int | None, *, order: int = 1) -> Tensor:
    """E[:, :S]: what states of the encoder contribute to the block of source–target attention.

    The share of the decoder's own stream is no part of it, so that rows add up to less than 1. Of
    one head, what the others add counts as that stream.

    Args:
        order: of the norm, 1 or 2.
    """
    block = batch.blocks["cross", layer]
    if head is not None:
        block = head_block(block, head)
    return contributions(block, order)[..., :-1]


def through_encoder(batch: Batch, layer: int, head: int | None) -> Tensor:
    """X = E[:, :S] R: the same of source tokens, through all layers of the encoder."""
    return contribution(batch, layer, head) @ _rollout(batch).encoder


def from_source(batch: Batch, layer: int, head: None = None) -> Tensor:
    """M_source: the share of each source token in the decoder's states, through all layers."""
    return _rollout(batch).origins(layer).source


def _rollout(batch: Batch) -> Rollout:
    if batch not in _ROLLOUTS:
        _ROLLOUTS[batch] = Rollout(batch.blocks)
    return _ROLLOUTS[batch]


def source_shares(
    forcing: TeacherForcing,
    pairs: Iterable[Pair],
    *,
    max_tokens: int = 4000,
    progress: Progress | None = None,
) -> Iterator[np.ndarray]:
    """How much of each decoder state comes from the source, and not from the prefix, by ALTI+.

    Args:
        forcing: of an encoder–decoder model, looking at its source–target attention.
        max_tokens: of a batch; moves nothing but time.
        progress: called with the number of pairs that were finished since its last call.

    Yields:
        For each pair, in input order, (L, T): from 0 to 1, by decoder layer and step. Step t reads
        target token t - 1, or the start mark, and predicts token t.
    """
    if forcing.attention != "cross":
        raise InputError(
            f"shares of the source are of cross attention; expected it instead of "
            f"{forcing.attention}"
        )
    run = partial(batch_source_shares, forcing)
    return map_batches(pairs, run, max_tokens=max_tokens, progress=progress)


def batch_source_shares(forcing: TeacherForcing, pairs: list[Pair]) -> Iterator[np.ndarray]:
    """The same for one batch."""
    rollout = Rollout(recorded_blocks(forcing, pairs, tuple(KINDS)))
    by_layer = [rollout.origins(layer).source.sum(-1) for layer in range(forcing.layers)]
    shares = torch.stack(by_layer, dim=1)  # (B, L, T)
    for of_pair, pair in zip(shares, pairs, strict=True):
        unpadded = of_pair[:, : len(pair.target.tokens)]
        check_finite(unpadded[None], [pair.where])
        yield unpadded.float().cpu().numpy()


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
