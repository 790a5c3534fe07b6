"""Removes heads from the state dict of a Transformer with fairseq's names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

import torch
from torch import Tensor

from fairseq_normalign.names import KINDS, Head, HeadCounts

# fairseq 0.12.2's; made anew on loading
COPIES = re.compile(r"\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)$")
LOG_ALPHA, STEERING = "out_proj.log_alpha", "steering."

State = Mapping[str, Tensor]


def attentions_in(state: State) -> Iterator[tuple[str, int, str]]:
    """Kind, layer from 0 and prefix of every attention."""
    for name, kind in KINDS.items():
        layer = 0
        while f"{kind.prefix(layer)}out_proj.weight" in state:
            yield name, layer, kind.prefix(layer)
            layer += 1


def count_heads(state: State, head_dims: Mapping[str, int]) -> HeadCounts:
    """How many heads each attention has, by (kind, layer from 0).

    Args:
        head_dims: the width of a head, by kind.
    """
    return {
        (kind, layer): state[f"{prefix}out_proj.weight"].shape[1] // head_dims[kind]
        for kind, layer, prefix in attentions_in(state)
    }


def log_alphas(state: State) -> dict[Head, float]:
    """log α of every gated head."""
    by_head = {}
    for kind, layer, prefix in attentions_in(state):
        of_attention = state.get(prefix + LOG_ALPHA, torch.empty(0))
        for head, value in enumerate(of_attention.tolist()):
            by_head[Head(kind, layer, head)] = value
    return by_head


def scale_heads(out_weight: Tensor, gates: Tensor) -> Tensor:
    """W_O (C, H·D) with the columns of head h multiplied by g_h."""
    by_head = out_weight.unflatten(1, (len(gates), -1))  # (C, H, D)
    return (by_head * gates.to(out_weight.dtype)[:, None]).flatten(1)


def columns_of(heads: Collection[int], head_dim: int) -> Tensor:
    """The neurons of some heads, in their order."""
    first = torch.tensor(list(heads), dtype=torch.long) * head_dim  # (H)
    return (first[:, None] + torch.arange(head_dim)).flatten()  # (H·D)


def keep_heads(
    state: State, kept: Collection[Head], head_dims: Mapping[str, int]
) -> dict[str, Tensor]:
    """The state dict without all other heads.

    Their rows of W_Q, W_K, W_V and b go, and their columns of W_O.
    """
    smaller = {key: value for key, value in state.items() if not COPIES.search(key)}
    for kind, layer, prefix in attentions_in(state):
        heads = [head.head for head in kept if head[:2] == (kind, layer)]
        neurons = columns_of(heads, head_dims[kind])
        for projection in ("q_proj", "k_proj", "v_proj"):
            for part in ("weight", "bias"):
                key = f"{prefix}{projection}.{part}"
                if key in state:
                    smaller[key] = state[key][neurons].clone()
        key = f"{prefix}out_proj.weight"
        smaller[key] = state[key][:, neurons].clone()
    return smaller
