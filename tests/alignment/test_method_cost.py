import pytest
import torch

from fairseq_normalign.alignment import method_cost
from fairseq_normalign.alignment.method_cost import measured, method_costs
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.host.pairs import PairReader, text_pairs
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from tests.conftest import build_model

PLACES = {"norms": Evidence("norms", 1), "lrp": Evidence("lrp", None, "output")}


def test_each_method_costs_something(task):
    forcing = TeacherForcing(build_model(task=task), task)
    pairs = list(text_pairs([("w1 w2 w3", "w4 w5"), ("w3", "w9 w8 w7")], PairReader(task)))
    costs = method_costs(forcing, pairs, PLACES, 100)
    assert list(costs) == ["(forward pass)", "norms", "lrp"]
    for forwards, seconds, _ in costs.values():
        assert forwards == pytest.approx(seconds / costs["(forward pass)"][1])


@pytest.mark.skipif(method_cost.resident_memory() is None, reason="Linux alone tells peaks")
def test_memory_is_seen_again_and_again():
    """Blocks of a few kilobytes, which C libraries keep when they are freed."""

    def take():
        return [torch.ones(2_000) for _ in range(5_000)]  # 40 MB

    here = torch.device("cpu")
    for _ in range(3):
        assert 30 < measured(take, here).megabytes < 90
    assert measured(lambda: None, here).megabytes < 15
