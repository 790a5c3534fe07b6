"""Clusters of states."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

BATCH = 1024
PASSES = 10  # over all states
ROWS = 4096  # states whose distances to all centres are held at once


def kmeans(states: Tensor, clusters: int, rng: np.random.Generator) -> np.ndarray:
    """The cluster of each state, by k-means in mini-batches (Sculley, 2010).

    It begins with states drawn at random. Each batch is assigned to the nearest centres, and a
    centre is the mean of all states that were ever assigned to it.

    Args:
        states: (N, C).
        clusters: how many, at most N.
        rng: draws the first centres and the batches.

    Returns:
        Numbers of clusters, (N,); a cluster may be empty.
    """
    states = states.float()
    centres = states[rng.permutation(len(states))[:clusters]].clone()
    counts = torch.zeros(clusters)
    for _ in range(PASSES):
        order = torch.from_numpy(rng.permutation(len(states)))
        for places in order.split(BATCH):
            move(centres, counts, states[places])
    batches = states.split(ROWS)
    return np.concatenate([nearest_centres(batch, centres).numpy() for batch in batches])


def nearest_centres(states: Tensor, centres: Tensor) -> Tensor:
    """The number of the centre that is nearest to each state: argmin ‖x‖² − 2xc + ‖c‖², (N,)."""
    return (centres.square().sum(1) - 2 * states @ centres.T).argmin(1)


def move(centres: Tensor, counts: Tensor, batch: Tensor) -> None:
    """Moves centres to the mean of what they had and of what a batch adds, in place."""
    assigned = nearest_centres(batch, centres)
    added = torch.zeros_like(counts).index_add_(0, assigned, torch.ones(len(batch)))
    sums = (centres * counts[:, None]).index_add_(0, assigned, batch)
    counts += added
    chosen = added > 0
    centres[chosen] = sums[chosen] / counts[chosen, None]
