"""Measures of states as points in space: neighbours, clusters, PWCCA, a plane to draw them in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import entropy
from scipy.stats.contingency import crosstab
from torch import Tensor

from fairseq_normalign.errors import InputError

NONE = -1  # in the place of a label
COMPARED = 1024  # tokens whose similarities to all others are held at once
BATCH = 1024
PASSES = 10  # over all states
ROWS = 4096  # states whose distances to all centres are held at once
SHUFFLES = 5
VARIANCE = 0.999  # of a view that is kept


# Some tokens (N,), others of each or of all of them (N, M) or (M,), and which count (N, M)
Compared = tuple[np.ndarray, np.ndarray, np.ndarray]


def possible_neighbours(sentences: np.ndarray, groups: np.ndarray) -> Iterator[Compared]:
    """The tokens that may be neighbours: those of the same group, some tokens at a time.

    Neither the token itself nor another one of its sentence counts: they share what they were
    computed from.

    Args:
        sentences: the sentence of each token, (N,).
        groups: the group of each token, (N,).
    """
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        for first in range(0, len(members), COMPARED):
            rows = members[first : first + COMPARED]
            yield rows, members, sentences[rows, None] != sentences[members]


def nearest(
    states: Tensor, sentences: np.ndarray, groups: np.ndarray, k: int
) -> Iterator[Compared]:
    """The k nearest of the possible neighbours of each token by cosine, nearest first.

    Where a group has no more, there are fewer than k, or some do not count.

    Args:
        states: (N, C).
    """
    unit = torch.nn.functional.normalize(states.float(), dim=1)
    for rows, others, allowed in possible_neighbours(sentences, groups):
        cosines = unit[rows] @ unit[others].T
        cosines[torch.from_numpy(~allowed)] = -torch.inf
        best = cosines.topk(min(k, len(others)), dim=1)
        yield rows, others[best.indices.numpy()], best.values.isfinite().numpy()


def share_alike(compared: Iterable[Compared], labels: np.ndarray) -> float:
    """The share of neighbours that have the token's own label, mean over tokens.

    Tokens whose label is ``NONE`` count neither as tokens nor as neighbours.
    """
    means = []
    for rows, others, counted in compared:
        ours, theirs = labels[rows, None], labels[others]
        labelled = (ours != NONE) & (theirs != NONE)
        means.append(np.ma.masked_array(ours == theirs, ~(counted & labelled)).mean(1))
    return _mean(means)


def mean_distance(compared: Iterable[Compared], positions: np.ndarray) -> float:
    """|pos − pos'| between a token and its neighbours, mean over tokens."""
    means = []
    for rows, others, counted in compared:
        distances = np.abs(positions[others] - positions[rows, None])
        means.append(np.ma.masked_array(distances, ~counted).mean(1))
    return _mean(means)


def _mean(means: Sequence[np.ma.MaskedArray]) -> float:
    """The mean over tokens that have a neighbour; 0 if there is none."""
    return float(np.ma.filled(np.ma.concatenate(means).mean(), 0.0))


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


def mutual_information(labels: np.ndarray, clusters: np.ndarray) -> float:
    """I(V; K) = H(V) + H(K) − H(V, K), in nats, from counts.

    The estimate is too high, by about (K − 1)(V − 1) / 2N: compare only estimates of as many
    tokens N, clusters K and labels V, and look at that of shuffled labels.

    Args:
        labels: v of each token, (N,).
        clusters: k of each token, (N,).
    """
    table = crosstab(labels, clusters).count
    return float(entropy(table.sum(1)) + entropy(table.sum(0)) - entropy(table.ravel()))


def shuffled_information(
    labels: np.ndarray, clusters: np.ndarray, rng: np.random.Generator
) -> float:
    """The mean estimate if tokens change their labels at random: what it is too high by."""
    estimates = [mutual_information(rng.permutation(labels), clusters) for _ in range(SHUFFLES)]
    return float(np.mean(estimates))


class View(NamedTuple):
    """States X of N tokens, centred, as K orthonormal directions over the tokens: X = U S Vᵀ."""

    directions: Tensor  # U, (N, K)
    loadings: Tensor  # S Vᵀ = Uᵀ X, (K, C): how much of each neuron is in each direction


def view_of(states: Tensor) -> View:
    """The directions with the largest singular values that have 99.9 % of the variance together.

    Args:
        states: X, (N, C).
    """
    u, s, vh = _components(states)
    variance = s.square().cumsum(0)
    if not variance[-1] > 0:
        raise InputError("all states of a layer are equal; there is nothing to compare")
    kept = int((variance < VARIANCE * variance[-1]).sum()) + 1
    return View(u[:, :kept], s[:kept, None] * vh[:kept])


def _components(states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """U, S and Vᵀ of centred states."""
    exact = states.double()
    return torch.linalg.svd(exact - exact.mean(0), full_matrices=False)


def shuffled_view(view: View, rng: np.random.Generator) -> View:
    """The view with its tokens in another order: what has nothing to do with the others."""
    order = torch.from_numpy(rng.permutation(len(view.directions)))
    return view._replace(directions=view.directions[order])


def pwcca_distance(first: View, second: View) -> float:
    """1 − Σ α_k ρ_k / Σ α_k, with the canonical correlations ρ and the weights α of PWCCA.

    The SVD of U_xᵀ U_y = A diag(ρ) Bᵀ gives ρ and the canonical variates h = U_x A; their weights
    are α_k = Σ_j |⟨h_k, x_j⟩| over the neurons x_j. The side with fewer directions gives the
    weights, the first one if both have as many.

    Differs from the authors' public code: its variates and weights depart from the definition.

    Args:
        first: of N tokens.
        second: of the same tokens in the same order.
    """
    x, y = first, second
    if y.directions.shape[1] < x.directions.shape[1]:
        x, y = y, x
    a, correlations, _ = torch.linalg.svd(x.directions.T @ y.directions, full_matrices=False)
    weights = (a.T @ x.loadings).abs().sum(1)  # α, (K,)
    similarity = (weights * correlations.clamp(max=1)).sum() / weights.sum()
    return float(1 - similarity)


def principal_plane(states: Tensor) -> tuple[np.ndarray, float]:
    """States by their first two principal components, and the share of the variance they have.

    The sign of a component is such that its largest loading is positive.

    Args:
        states: (N, C).

    Returns:
        (N, 2), and the share.
    """
    u, s, vh = _components(states)
    signs = vh.gather(1, vh.abs().argmax(1, keepdim=True)).sign().squeeze(1)
    plane = (u * s * signs)[:, :2]
    variance = s.square()
    share = variance[:2].sum() / variance.sum().clamp(min=1e-300)
    return plane.numpy(), float(share)
