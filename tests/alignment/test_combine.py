import numpy as np
import pytest

from fairseq_normalign.alignment import combine
from fairseq_normalign.alignment.combine import (
    FLOOR,
    LinkModel,
    fit_links,
    sigmoid,
    two_softmaxes,
)

RANDOM = np.random.default_rng(0)
A, B = RANDOM.dirichlet(np.ones(4), size=(2, 3))


def test_means_by_hand():
    product = combine.geometric_mean([A, B], [1, 3])
    assert product[1, 2] == pytest.approx(((A[1, 2] + FLOOR) * (B[1, 2] + FLOOR) ** 3) ** 0.25)
    harmonic = combine.harmonic_mean([A, B])
    assert harmonic[1, 2] == pytest.approx(2 / (1 / (A[1, 2] + FLOOR) + 1 / (B[1, 2] + FLOOR)))
    assert combine.arithmetic_mean([A, B], [1, 3])[1, 2] == pytest.approx(
        (A[1, 2] + 3 * B[1, 2]) / 4
    )


@pytest.mark.parametrize("mean", combine.MEANS.values())
def test_a_mean_of_the_same_is_the_same(mean):
    np.testing.assert_allclose(mean([A, A, A]), A, atol=2 * FLOOR)


def test_where_no_evidence_sees_anything_there_is_nothing():
    zero = np.zeros((2, 3))
    one = np.eye(2, 3)
    for mean in combine.MEANS.values():
        assert not mean([zero, zero]).any()
        assert (mean([zero, one]) > 0).tolist() == (one > 0).tolist()


def made_up_corpus(weights, bias, pairs=200):
    """Evidences, and links drawn from the model that the weights describe."""
    shares = [list(RANDOM.dirichlet(np.ones(5), size=(len(weights), 4))) for _ in range(pairs)]
    model = LinkModel(np.array(weights), bias)
    return shares, [RANDOM.random((4, 5)) < sigmoid(model.log_odds(pair)) for pair in shares]


def test_a_fitted_model_finds_the_weights_that_made_the_links():
    shares, links = made_up_corpus([2.0, 1.0, 0.0], 3.0)
    model = fit_links(shares, links)
    np.testing.assert_allclose(model.weights, [2, 1, 0], atol=0.25)
    assert model.bias == pytest.approx(3, abs=0.5)


def test_the_fit_is_the_maximum_that_gradient_ascent_finds_too():
    shares, links = made_up_corpus([1.0, -1.0], 0.5, pairs=40)
    model = fit_links(shares, links)
    cells = np.concatenate([np.log(np.stack(pair).reshape(2, -1).T + FLOOR) for pair in shares])
    truth = np.concatenate([pair.ravel() for pair in links])
    error = truth - 1 / (1 + np.exp(-(cells @ model.weights + model.bias)))
    ridge = combine.RIDGE * len(cells) * cells.std(axis=0) ** 2 * model.weights
    np.testing.assert_allclose(cells.T @ error, ridge, atol=1e-2)
    assert error.sum() == pytest.approx(0, abs=1e-4)


def test_two_softmaxes_by_loops():
    log_odds = RANDOM.normal(size=(3, 4)) * 4
    found = two_softmaxes(log_odds, -1.5)
    for t in range(3):
        for s in range(4):
            row = sum(np.exp(log_odds[t, other]) for other in range(4))
            column = sum(np.exp(log_odds[other, s]) for other in range(3))
            odds = np.exp(log_odds[t, s])
            none = np.exp(-1.5)
            assert found[t, s] == pytest.approx((odds / (none + row) + odds / (none + column)) / 2)
    assert two_softmaxes(np.zeros((0, 3)), -1).shape == (0, 3)
    assert two_softmaxes(np.full((1, 1), 1e4), -1).tolist() == [[1]]
