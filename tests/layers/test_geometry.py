"""Neighbours, clusters, information, PWCCA and planes against slow twins and hand-worked values."""

import math

import numpy as np
import pytest
import torch

from fairseq_normalign.errors import InputError
from fairseq_normalign.layers import geometry
from fairseq_normalign.layers.geometry import (
    NONE,
    kmeans,
    mean_distance,
    move,
    mutual_information,
    nearest,
    possible_neighbours,
    principal_plane,
    pwcca_distance,
    share_alike,
    shuffled_information,
    shuffled_view,
    view_of,
)

N, K = 40, 3


@pytest.fixture
def tokens():
    """States, sentences, groups, labels and positions of some tokens."""
    rng = np.random.default_rng(0)
    states = torch.from_numpy(rng.normal(size=(N, 5)))
    return states, *(rng.integers(high, size=N) for high in (10, 3, 4, 20))


def slow_candidates(token, sentences, groups):
    others = []
    for other in range(N):
        alike = groups[other] == groups[token]
        if alike and sentences[other] != sentences[token]:
            others.append(other)
    return others


def slow_nearest(states, sentences, groups, k):
    rows = []
    for token in range(N):
        cosines = {}
        for other in slow_candidates(token, sentences, groups):
            x, y = states[token], states[other]
            cosines[other] = float(x @ y / (x.norm() * y.norm()))
        ordered = sorted(cosines, key=cosines.__getitem__, reverse=True)[:k]
        rows.append(ordered + [NONE] * (k - len(ordered)))
    return np.array(rows)


@pytest.mark.parametrize("k", [K, 12])
def test_nearest_are_those_of_the_largest_cosines(tokens, k, monkeypatch):
    states, sentences, groups, *_ = tokens
    slow = slow_nearest(states, sentences, groups, k)
    assert (neighbours_of(states, sentences, groups, k) == slow).all()
    monkeypatch.setattr(geometry, "COMPARED", 7)
    assert (neighbours_of(states, sentences, groups, k) == slow).all()


def neighbours_of(states, sentences, groups, k):
    """(N, k), NONE where there are no more."""
    found = np.full((N, k), NONE)
    for rows, neighbours, counted in nearest(states, sentences, groups, k):
        found[rows, : counted.shape[1]] = np.where(counted, neighbours, NONE)
    return found


@pytest.mark.parametrize("k", [K, 12, None])
@pytest.mark.parametrize("at_edges", [False, True])
def test_shares_and_distances_are_means_over_tokens(tokens, k, at_edges):
    """Of the k nearest, some of which have fewer, or of all that are possible.

    Tokens without a label, as at the edge of a sentence, do not count.
    """
    states, sentences, groups, labels, positions = tokens
    if at_edges:
        labels = np.where(labels == 3, NONE, labels)
    compared = list(possible_neighbours(sentences, groups))
    others_of = [slow_candidates(token, sentences, groups) for token in range(N)]
    if k is not None:
        compared = list(nearest(states, sentences, groups, k))
        rows = neighbours_of(states, sentences, groups, k)
        others_of = [[other for other in row if other != NONE] for row in rows]
    shares, distances = [], []
    for token, others in enumerate(others_of):
        gaps = [abs(int(positions[other]) - int(positions[token])) for other in others]
        distances.append(np.mean(gaps))
        labelled = [other for other in others if labels[other] != NONE]
        if labels[token] != NONE and labelled:
            shares.append(np.mean([labels[other] == labels[token] for other in labelled]))
    assert share_alike(compared, labels) == pytest.approx(np.mean(shares))
    assert mean_distance(compared, positions) == pytest.approx(np.mean(distances))
    assert share_alike(compared, np.full(N, NONE)) == 0


def slow_move(centres, counts, batch):
    """Sculley (2010), Algorithm 1: assign all of a batch, then take a step for each state."""
    assigned = []
    for state in batch:
        squares = [float((state - centre).square().sum()) for centre in centres]
        assigned.append(squares.index(min(squares)))
    for state, place in zip(batch, assigned, strict=True):
        counts[place] += 1
        rate = 1 / counts[place]
        centres[place] = (1 - rate) * centres[place] + rate * state


def test_centres_move_as_in_the_paper():
    random = torch.Generator().manual_seed(0)
    fast = slow = torch.randn(4, 3, generator=random)
    fast, slow = fast.clone(), slow.clone()
    fast_counts, slow_counts = torch.zeros(4), torch.zeros(4)
    for _ in range(3):
        batch = torch.randn(10, 3, generator=random)
        move(fast, fast_counts, batch)
        slow_move(slow, slow_counts, batch)
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5)
    assert fast_counts.tolist() == slow_counts.tolist()


def test_states_that_lie_apart_are_told_apart():
    """Of clusters that began in one heap, no other heap is ever split."""
    labels = np.repeat(np.arange(3), 400)
    heaps = torch.tensor([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0]])
    states = heaps[labels] + torch.randn(1200, 2, generator=torch.Generator().manual_seed(0))
    clusters = kmeans(states, 12, np.random.default_rng(0))
    for cluster in np.unique(clusters):
        assert len(np.unique(labels[clusters == cluster])) == 1


def slow_information(labels, clusters):
    total = 0.0
    n = len(labels)
    pairs = list(zip(labels, clusters, strict=True))
    for v, k in set(pairs):
        joint = pairs.count((v, k)) / n
        total += joint * math.log(joint / ((labels.count(v) / n) * (clusters.count(k) / n)))
    return total


def test_information_is_what_the_definition_says():
    rng = np.random.default_rng(0)
    labels, clusters = rng.integers(5, size=60), rng.integers(7, size=60)
    slow = slow_information(labels.tolist(), clusters.tolist())
    assert mutual_information(labels, clusters) == pytest.approx(slow)


def test_shuffled_labels_show_the_bias():
    """(K − 1)(V − 1) / 2N to the first order."""
    rng = np.random.default_rng(0)
    labels, clusters = rng.integers(10, size=5000), rng.integers(20, size=5000)
    expected = 19 * 9 / (2 * 5000)
    assert mutual_information(labels, clusters) == pytest.approx(expected, rel=0.2)
    assert shuffled_information(labels, clusters, rng) == pytest.approx(expected, rel=0.2)


M, C = 600, 6


@pytest.fixture
def states():
    return torch.randn(M, C, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def noise(seed: int, width: int = C) -> torch.Tensor:
    return torch.randn(M, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow_distance(x, y):
    """PWCCA by its definition: covariances, Σ^-1/2, one correlation and weight at a time.

    x is the side with fewer neurons, and all of its variance is kept.
    """
    x, y = ((side - side.mean(0)).numpy() for side in (x, y))
    xx, yy, xy = x.T @ x, y.T @ y, x.T @ y
    whiten_x, whiten_y = inverse_root(xx), inverse_root(yy)
    a, correlations, _ = np.linalg.svd(whiten_x @ xy @ whiten_y)
    total = weighted = 0.0
    for k in range(len(correlations)):
        variate = x @ whiten_x @ a[:, k]
        weight = 0.0
        for j in range(x.shape[1]):
            weight += abs(variate @ x[:, j])
        total += weight
        weighted += weight * correlations[k]
    return 1 - weighted / total


def inverse_root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return vectors @ np.diag(values**-0.5) @ vectors.T


@pytest.mark.parametrize("width", [C, C + 3])
def test_pwcca_is_what_the_definition_says(states, width):
    other = states @ noise(2, width)[:C] + noise(3, width)
    assert pwcca_distance(view_of(states), view_of(other)) == pytest.approx(
        slow_distance(states, other), abs=1e-9
    )


def test_the_side_with_fewer_directions_gives_the_weights(states):
    wide = torch.cat([states + noise(4), noise(5)], dim=1)
    there = pwcca_distance(view_of(states), view_of(wide))
    assert pwcca_distance(view_of(wide), view_of(states)) == pytest.approx(there, abs=1e-9)


def test_an_invertible_map_and_a_shift_change_nothing(states):
    moved = states @ (torch.eye(C, dtype=torch.float64) + 0.1 * noise(6)[:C]) * 3 + 5
    assert pwcca_distance(view_of(states), view_of(moved)) == pytest.approx(0, abs=1e-9)


def test_a_shuffled_view_is_noise(states):
    other = shuffled_view(view_of(states), np.random.default_rng(0))
    assert pwcca_distance(view_of(states), other) > 0.9
    torch.testing.assert_close(other.directions.sum(0), view_of(states).directions.sum(0))


def test_directions_with_hardly_any_variance_are_left_out(states):
    states[:, -1] *= 1e-3
    assert view_of(states).directions.shape == (M, C - 1)


def test_equal_states_cannot_be_compared():
    with pytest.raises(InputError, match="all states of a layer are equal"):
        view_of(torch.ones(5, 3))


def test_the_first_component_has_the_largest_variance():
    states = torch.randn(50, 4, generator=torch.Generator().manual_seed(0)) * torch.arange(1.0, 5)
    plane, share = principal_plane(states)
    values = torch.linalg.eigvalsh(torch.cov(states.double().T)).flip(0)
    assert plane.var(0, ddof=1) == pytest.approx(values[:2].numpy(), rel=1e-5)
    assert share == pytest.approx(float(values[:2].sum() / values.sum()), rel=1e-5)
