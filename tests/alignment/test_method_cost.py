import pytest

from fairseq_normalign.alignment.method_cost import method_costs
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.host.pairs import text_pairs
from tests.conftest import ready_model

PLACES = {"norms": Evidence("norms", 1), "lrp": Evidence("lrp", None, "output")}


def test_each_method_costs_something(task):
    forcing, reader = ready_model(task)
    pairs = list(text_pairs([("w1 w2 w3", "w4 w5"), ("w3", "w9 w8 w7")], reader))
    costs = method_costs(forcing, pairs, PLACES, 100)
    assert list(costs) == ["(forward pass)", "norms", "lrp"]
    for forwards, seconds, _ in costs.values():
        assert forwards == pytest.approx(seconds / costs["(forward pass)"][1])
