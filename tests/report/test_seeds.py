"""Heads of several models together."""

import pytest

from fairseq_normalign.heads.correlation import spearman
from fairseq_normalign.heads.profile import Profile
from fairseq_normalign.names import Head
from fairseq_normalign.report.seeds import as_json, as_text, correlation_spreads, layer_spreads

HEADS = [Head("encoder", 0, number) for number in range(3)] + [Head("cross", 1, 0)]


def profile(confidence, norm, aer) -> Profile:
    return Profile(
        HEADS,
        scores={
            "confidence": dict(zip(HEADS, confidence, strict=True)),
            "norm": dict(zip(HEADS[:3], norm, strict=True)),
            "AER": {HEADS[3]: aer},
        },
    )


ONE = profile([0.1, 0.2, 0.3, 0.5], [1.0, 2.0, 3.0], 0.3)
# The same heads in another order, and a little more of everything in the last layer.
OTHER = profile([0.3, 0.1, 0.2, 0.7], [1.0, 2.0, 3.0], 0.4)


def test_a_layer_does_not_depend_on_the_order_of_its_heads():
    confidence = layer_spreads([ONE, OTHER])["confidence"]
    lowest, mean, highest = confidence["encoder", 0].values()
    assert [lowest.mean, mean.mean, highest.mean] == pytest.approx([0.1, 0.2, 0.3])
    assert [lowest.deviation, mean.deviation, highest.deviation] == pytest.approx([0, 0, 0])
    assert confidence["cross", 1]["mean"] == pytest.approx((0.6, 0.2 / 2**0.5))


def test_correlations_are_those_of_each_model():
    pair = "confidence", "norm"
    rhos = [spearman([0.1, 0.2, 0.3], [1, 2, 3]), spearman([0.3, 0.1, 0.2], [1, 2, 3])]
    measured = correlation_spreads([ONE, OTHER])["encoder"][pair]
    assert measured.mean == pytest.approx(sum(rhos) / 2)
    assert measured.deviation == pytest.approx(abs(rhos[0] - rhos[1]) / 2**0.5)


def test_a_correlation_that_one_model_has_not_has_no_mean():
    alike = profile([0.1, 0.1, 0.1, 0.5], [1.0, 2.0, 3.0], 0.3)
    assert ("confidence", "norm") not in correlation_spreads([ONE, alike])["encoder"]


def test_as_text():
    parts = as_text([ONE, OTHER]).split("\n\n")
    assert parts[0].splitlines() == [
        "encoder self-attention",
        "layer      heads      confidence          norm",
        "encoder.1  lowest   0.100 ±0.000  1.000 ±0.000",
        "encoder.1  mean     0.200 ±0.000  2.000 ±0.000",
        "encoder.1  highest  0.300 ±0.000  3.000 ±0.000",
    ]
    assert parts[1].splitlines()[-1] == "cross.2  highest  0.600 ±0.141  35.0 ±7.1"
    assert parts[3].splitlines() == ["encoder", "       confidence", "norm  +0.25 ±1.06"]
    assert parts[4] == "cross: no rank correlation is defined in all models"
    assert parts[-1] == "Mean ± sample deviation of 2 models."


def test_as_json():
    contents = as_json([ONE, OTHER], {"a.pt": {"heads": []}, "b.pt": {"heads": []}})
    assert list(contents["models"]) == ["a.pt", "b.pt"]
    (aer,) = [entry for entry in contents["layers"] if entry["score"] == "AER"]
    assert (aer["attention"], aer["layer"]) == ("cross", 2)
    assert aer["mean"]["mean"] == pytest.approx(0.35)
    (pair,) = contents["correlations"]["encoder"]
    assert pair["scores"] == ["confidence", "norm"]
    assert pair["mean"] == pytest.approx(0.25)
