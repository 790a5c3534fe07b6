import numpy as np
import pytest
import torch

from fairseq_normalign.representations import neighbours
from fairseq_normalign.representations.neighbours import (
    NONE,
    mean_distance,
    nearest,
    random_distance,
    random_share,
    share_alike,
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
    assert (nearest(states, sentences, groups, k) == slow).all()
    monkeypatch.setattr(neighbours, "ROWS", 7)
    assert (nearest(states, sentences, groups, k) == slow).all()


def test_shares_and_distances_are_means_over_tokens(tokens):
    states, sentences, groups, labels, positions = tokens
    neighbours = nearest(states, sentences, groups, 12)  # some have fewer
    assert (neighbours == NONE).any()
    shares, distances = [], []
    for token in range(N):
        others = [other for other in neighbours[token] if other != NONE]
        shares.append(np.mean([labels[other] == labels[token] for other in others]))
        gaps = [abs(int(positions[other]) - int(positions[token])) for other in others]
        distances.append(np.mean(gaps))
    assert share_alike(neighbours, labels) == pytest.approx(np.mean(shares))
    assert mean_distance(neighbours, positions) == pytest.approx(np.mean(distances))


def test_random_neighbours_are_all_that_are_possible(tokens):
    _, sentences, groups, labels, positions = tokens
    shares, distances = [], []
    for token in range(N):
        others = slow_candidates(token, sentences, groups)
        shares.append(np.mean([labels[other] == labels[token] for other in others]))
        gaps = [abs(int(positions[other]) - int(positions[token])) for other in others]
        distances.append(np.mean(gaps))
    assert random_share(sentences, groups, labels) == pytest.approx(np.mean(shares))
    assert random_distance(sentences, groups, positions) == pytest.approx(np.mean(distances))


def test_tokens_without_a_label_do_not_count(tokens):
    """As those at the edge of a sentence, which have nothing before or after them."""
    states, sentences, groups, labels, _ = tokens
    labels = np.where(labels == 3, NONE, labels)
    neighbours = nearest(states, sentences, groups, K)
    near, random = [], []
    for token in np.flatnonzero(labels != NONE):
        others = [other for other in neighbours[token] if other != NONE and labels[other] != NONE]
        if others:
            near.append(np.mean([labels[other] == labels[token] for other in others]))
        others = [o for o in slow_candidates(token, sentences, groups) if labels[o] != NONE]
        random.append(np.mean([labels[other] == labels[token] for other in others]))
    assert share_alike(neighbours, labels) == pytest.approx(np.mean(near))
    assert random_share(sentences, groups, labels) == pytest.approx(np.mean(random))
    nowhere = np.full(N, NONE)
    assert share_alike(neighbours, nowhere) == random_share(sentences, groups, nowhere) == 0


def test_states_that_are_their_labels_keep_them_all():
    labels = np.repeat(np.arange(4), 10)
    states = torch.eye(4)[labels] + 0.01 * torch.randn(40, 4)
    alone = nearest(states, np.arange(40), np.zeros(40), 5)
    assert share_alike(alone, labels) == 1
    assert random_share(np.arange(40), np.zeros(40), labels) == pytest.approx(9 / 39)


def test_a_token_alone_in_its_group_does_not_count():
    states = torch.randn(3, 2)
    groups = np.array([0, 0, 1])
    neighbours = nearest(states, np.arange(3), groups, 1)
    assert neighbours.tolist() == [[1], [0], [NONE]]
    assert share_alike(neighbours, np.array([5, 5, 7])) == 1
