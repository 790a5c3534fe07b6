import numpy as np
import pytest
import torch

from fairseq_normalign.errors import InputError
from fairseq_normalign.layers.cca import distance, shuffled, view_of

N, C = 600, 6


@pytest.fixture
def states():
    return torch.randn(N, C, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def noise(seed: int, width: int = C) -> torch.Tensor:
    return torch.randn(N, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


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
def test_it_is_what_the_definition_says(states, width):
    other = states @ noise(2, width)[:C] + noise(3, width)
    assert distance(view_of(states), view_of(other)) == pytest.approx(
        slow_distance(states, other), abs=1e-9
    )


def test_the_side_with_fewer_directions_gives_the_weights(states):
    wide = torch.cat([states + noise(4), noise(5)], dim=1)
    there = distance(view_of(states), view_of(wide))
    assert distance(view_of(wide), view_of(states)) == pytest.approx(there, abs=1e-9)


def test_nothing_lies_between_a_view_and_itself(states):
    assert distance(view_of(states), view_of(states)) == pytest.approx(0, abs=1e-9)


def test_an_invertible_map_and_a_shift_change_nothing(states):
    moved = states @ (torch.eye(C, dtype=torch.float64) + 0.1 * noise(6)[:C]) * 3 + 5
    assert distance(view_of(states), view_of(moved)) == pytest.approx(0, abs=1e-9)


def test_noise_has_nothing_in_common(states):
    assert distance(view_of(states), view_of(noise(7))) > 0.9


def test_too_few_tokens_let_noise_look_alike(states):
    few = 2 * C
    assert distance(view_of(states[:few]), view_of(noise(7)[:few])) < 0.6


def test_a_shuffled_view_is_noise(states):
    other = shuffled(view_of(states), np.random.default_rng(0))
    assert distance(view_of(states), other) > 0.9
    torch.testing.assert_close(other.directions.sum(0), view_of(states).directions.sum(0))


def test_directions_with_hardly_any_variance_are_left_out(states):
    states[:, -1] *= 1e-3
    assert view_of(states).directions.shape == (N, C - 1)


def test_equal_states_cannot_be_compared():
    with pytest.raises(InputError, match="all states of a layer are equal"):
        view_of(torch.ones(5, 3))
