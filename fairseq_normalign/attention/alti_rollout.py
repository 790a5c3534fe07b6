"""Contributions of all layers together: how much of each state comes from each token of the text.

Contributions of a block are shares, so those of layers multiply ("Towards Opening the Black Box of
Neural Machine Translation", Ferrando et al., 2022: ALTI+). With A^l of encoder layers, D^l of the
decoder's self-attention, E^l of source–target attention and e^l its last column, the decoder's own
stream,

    R   = A^L ⋯ A^1                              source tokens in what the encoder hands on
    X^l = E^l[:, :S] R,    Y^l = diag(e^l) D^l
    M^l = [X^l + Y^l M^{l-1}_source | Y^l M^{l-1}_target],    M^0 = [0 | I]

Rows of R and of M^l add up to 1. Feed-forward blocks, their layer norms and the last layer norm of
a stack work on each state by itself, and are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_normalign.attention.alti import contributions
from fairseq_normalign.attention.block import Block


class Origins(NamedTuple):
    """M^l: how much of each decoder state comes from each token."""

    source: Tensor  # (B, T, S)
    target: Tensor  # of the prefix, (B, T, T)


class Rollout:
    """ALTI+ from the blocks of one batch; what layers share is computed once.

    Args:
        blocks: by (kind, layer from 0): ``encoder``, ``decoder`` and ``cross``, every layer.
    """

    def __init__(self, blocks: Mapping[tuple[str, int], Block]):
        self.blocks = blocks
        self._origins: list[Origins] = []  # of the layers so far

    @cached_property
    def encoder(self) -> Tensor:
        """R, (B, S, S)."""
        layers = sorted(layer for kind, layer in self.blocks if kind == "encoder")
        return encoder_rollout([contributions(self.blocks["encoder", layer]) for layer in layers])

    def origins(self, layer: int) -> Origins:
        """M^l of a decoder layer, from 0."""
        while len(self._origins) <= layer:
            place = len(self._origins)
            own = contributions(self.blocks["decoder", place])
            cross = contributions(self.blocks["cross", place])
            below = self._origins[-1] if self._origins else start(cross)
            self._origins.append(decoder_layer(own, cross, self.encoder, below))
        return self._origins[layer]


def encoder_rollout(layers: list[Tensor]) -> Tensor:
    """R = A^L ⋯ A^1, (B, S, S), of the contributions of each layer, first to last."""
    rollout = layers[0]
    for contribution in layers[1:]:
        rollout = contribution @ rollout
    return rollout


def start(cross: Tensor) -> Origins:
    """M^0 = [0 | I], of the shape that E (B, T, S+1) tells: each state is its own token."""
    batch, queries, _ = cross.shape
    identity = torch.eye(queries, dtype=cross.dtype, device=cross.device)
    return Origins(torch.zeros_like(cross[..., :-1]), identity.expand(batch, -1, -1))


def decoder_layer(own: Tensor, cross: Tensor, encoder: Tensor, below: Origins) -> Origins:
    """M^l from D^l (B, T, T), E^l (B, T, S+1), R (B, S, S) and M^{l-1}."""
    from_source = cross[..., :-1] @ encoder  # X
    from_below = cross[..., -1:] * own  # Y
    return Origins(from_source + from_below @ below.source, from_below @ below.target)
