"""Mean ± deviation of several models."""

import math

import pytest

from fairseq_normalign.results.spread import Spread, spread


def slow_deviation(values):
    """√(Σ (x − mean)² / (n − 1))."""
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


@pytest.mark.parametrize("values", [[1.0, 2.0], [37.2, 35.5, 36.0], [5.0, 5.0, 5.0, 5.0]])
def test_the_deviation_is_that_of_a_sample(values):
    measured = spread(values)
    assert measured.mean == pytest.approx(sum(values) / len(values))
    assert measured.deviation == pytest.approx(slow_deviation(values))


@pytest.mark.parametrize(
    ("measured", "form", "text"),
    [
        (spread([37.25]), ".1f", "37.2"),
        (spread([36.0, 38.0]), ".1f", "37.0 ±1.4"),
        (spread([0.4, 0.6]), "+.2f", "+0.50 ±0.14"),
        (Spread(-0.5, 0.0), ".1f", "-0.5 ±0.0"),
    ],
)
def test_as_text(measured, form, text):
    assert f"{measured:{form}}" == text
