import numpy as np
import pytest
from scipy.stats import spearmanr

from fairseq_normalign.heads.correlation import (
    correlations,
    correlations_within_layers,
    interval,
    spearman,
)
from fairseq_normalign.names import Head

CASES = [  # hand-worked
    ([1, 2, 3, 4], [10, 20, 30, 400], 1.0),
    ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
    ([1, 2, 3, 4, 5], [2, 1, 4, 3, 5], 0.8),  # 1 − 6·4 / (5·24)
    ([1, 1, 2], [1, 2, 3], 0.75**0.5),  # ranks 1.5 1.5 3 and 1 2 3: 1.5 / √(1.5·2)
]


@pytest.mark.parametrize("first, second, rho", CASES)
def test_spearman(first, second, rho):
    assert spearman(np.array(first), np.array(second)) == pytest.approx(rho)


def test_spearman_with_many_ties_equals_scipys():
    random = np.random.default_rng(1)
    first, second = random.integers(5, size=(2, 40)).astype(float)
    assert spearman(first, second) == pytest.approx(spearmanr(first, second).statistic)


@pytest.mark.parametrize("first, second", [([], []), ([1, 2], [1, 2]), ([1, 1, 1], [1, 2, 3])])
def test_undefined(first, second):
    assert spearman(np.array(first), np.array(second)) is None


def test_all_pairs_of_scores_over_heads_that_have_both():
    heads = [Head("encoder", 0, number) for number in range(4)]
    rising = dict(zip(heads, [0.1, 0.2, 0.3, 0.4], strict=True))
    falling = dict(zip(heads[:3], [3, 2, 1], strict=True))
    pairs = correlations({"a": rising, "b": falling, "c": {}}, heads)
    assert pairs == {
        ("a", "b"): (pytest.approx(-1), 3, None),
        ("a", "c"): (None, 0, None),
        ("b", "c"): (None, 0, None),
    }
    assert correlations({"a": rising, "b": falling}, heads[:2])["a", "b"] == (None, 2, None)


def test_within_layers_leaves_out_what_differs_between_them():
    """Both scores rise from head to head; between layers, one rises and the other falls."""
    heads = [Head("cross", layer, number) for layer in range(2) for number in range(3)]
    first = dict(zip(heads, [1, 2, 3, 11, 12, 13], strict=True))
    second = dict(zip(heads, [51, 52, 53, 1, 2, 3], strict=True))
    assert correlations({"a": first, "b": second}, heads)["a", "b"].rho < 0
    within = correlations_within_layers({"a": first, "b": second}, heads)["a", "b"]
    assert within == (pytest.approx(1), 6, None)
    third = dict(zip(heads, [51, 52, 53, 3, 2, 1], strict=True))
    within = correlations_within_layers({"a": first, "b": third}, heads)["a", "b"]
    assert within.rho == pytest.approx(0)
    within = correlations_within_layers({"a": first, "b": third}, heads[:2])["a", "b"]
    assert within == (None, 0, None)


def test_a_mean_over_many_layers_has_an_interval():
    rhos = [0.2, 0.8, -0.4, 1.0, 0.6, 0.0, 0.4, 0.8, 0.2]
    low, high = interval(rhos)
    deviation = np.std(rhos, ddof=1) / len(rhos) ** 0.5
    assert low < np.mean(rhos) < high
    assert high - low == pytest.approx(2 * 1.96 * deviation, rel=0.15)  # as by the normal law
    assert interval(rhos[:2]) is None
    assert interval([0.5] * 4) == pytest.approx((0.5, 0.5))
