"""Whether tokens whose states are near to each other are alike (Voita et al., EMNLP 2019)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

NONE = -1  # in the place of a neighbour, or of a label
ROWS = 1024  # tokens whose similarities to all others are held at once


def nearest(states: Tensor, sentences: np.ndarray, groups: np.ndarray, k: int) -> np.ndarray:
    """The k nearest neighbours of each token by cosine, within its group.

    Neither the token itself nor another one of its sentence counts: they share what they were
    computed from.

    Args:
        states: (N, C).
        sentences: the sentence of each token, (N,).
        groups: the group of each token, (N,).

    Returns:
        Tokens, (N, k), nearest first; ``NONE`` where a group has no more.
    """
    unit = torch.nn.functional.normalize(states.float(), dim=1)
    neighbours = np.full((len(states), k), NONE)
    for rows, others, allowed in _comparisons(sentences, groups):
        cosines = unit[rows] @ unit[others].T
        cosines[torch.from_numpy(~allowed)] = -np.inf
        best = cosines.topk(min(k, len(others)), dim=1)
        tokens = others[best.indices.numpy()]
        tokens[np.isneginf(best.values.numpy())] = NONE
        neighbours[rows, : tokens.shape[1]] = tokens
    return neighbours


def share_alike(neighbours: np.ndarray, labels: np.ndarray) -> float:
    """The share of neighbours that have the token's own label, mean over tokens.

    Tokens whose label is ``NONE`` count neither as tokens nor as neighbours.
    """
    counted = (neighbours != NONE) & _labelled(labels, labels[neighbours])
    return _mean(labels[neighbours] == labels[:, None], counted)


def mean_distance(neighbours: np.ndarray, positions: np.ndarray) -> float:
    """|pos − pos'| between a token and its neighbours, mean over tokens."""
    return _mean(np.abs(positions[neighbours] - positions[:, None]), neighbours != NONE)


def random_share(sentences: np.ndarray, groups: np.ndarray, labels: np.ndarray) -> float:
    """What ``share_alike`` is expected to be if neighbours are drawn at random."""
    means = []
    for rows, others, allowed in _comparisons(sentences, groups):
        counted = allowed & _labelled(labels[rows], labels[others])
        means.append(_row_means(labels[others] == labels[rows, None], counted))
    return _nanmean(np.concatenate(means))


def random_distance(sentences: np.ndarray, groups: np.ndarray, positions: np.ndarray) -> float:
    """What ``mean_distance`` is expected to be if neighbours are drawn at random."""
    means = []
    for rows, others, allowed in _comparisons(sentences, groups):
        means.append(_row_means(np.abs(positions[others] - positions[rows, None]), allowed))
    return _nanmean(np.concatenate(means))


def _comparisons(
    sentences: np.ndarray, groups: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Some tokens, all tokens of their group, and which of these may be neighbours of which."""
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        for first in range(0, len(members), ROWS):
            rows = members[first : first + ROWS]
            yield rows, members, sentences[rows, None] != sentences[members]


def _mean(values: np.ndarray, counts: np.ndarray) -> float:
    return _nanmean(_row_means(values, counts))


def _nanmean(values: np.ndarray) -> float:
    """The mean of what is a number; 0 if nothing is."""
    return 0.0 if np.isnan(values).all() else float(np.nanmean(values))


def _labelled(labels: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Whether both a token and another one have a label, (N,) and (M,) or (N, M) → (N, M)."""
    return (labels[:, None] != NONE) & (others != NONE)


def _row_means(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The mean of each row over what counts; nan where nothing does."""
    numbers = counts.sum(1)
    sums = (values * counts).sum(1)
    return np.divide(sums, numbers, out=np.full(len(sums), np.nan), where=numbers > 0)
