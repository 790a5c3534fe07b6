"""The table of soft methods: its entries on what a model recorded, and how they are named."""

import pytest
import torch

from fairseq_normalign.attention.contributions import Recorded
from fairseq_normalign.attention.methods import (
    METHODS,
    Batch,
    full_spec,
    method_of,
    methods_without_files,
)
from fairseq_normalign.errors import InputError

RECORDED = Recorded(torch.rand(2, 3, 4, 5), torch.randn(2, 3, 5, 2), torch.randn(3, 2, 6))


def compute(name: str, head: int | None = None, recorded: Recorded = RECORDED):
    return METHODS[name].compute(Batch(None, [], {("cross", 1): recorded}), 1, head)


def test_one_head():
    torch.testing.assert_close(compute("weights", 2), RECORDED.weights[:, 2])
    alone = Recorded(RECORDED.weights[:, 2:], RECORDED.values[:, 2:], RECORDED.out_weight[2:])
    expected = compute("norms", recorded=alone)
    torch.testing.assert_close(compute("norms", 2), expected, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(compute("head-norms", 2), expected, rtol=1e-4, atol=1e-6)


def test_head_norms_are_the_mean_over_heads():
    heads = torch.stack([compute("norms", head) for head in range(3)])
    torch.testing.assert_close(compute("head-norms"), heads.mean(0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("spec", "full"),
    [
        ("norms", "norms"),
        ("lrp", "lrp:1e-05"),
        ("lrp-epsilon:0.001", "lrp-epsilon:0.001"),
        ("lrp-epsilon:1e-3", "lrp-epsilon:0.001"),
        ("grad-input", "grad-input"),
        ("smoothgrad", "smoothgrad:30"),
        ("smoothgrad:05", "smoothgrad:5"),
        ("smoothgrad:999999", "smoothgrad:999999"),
    ],
)
def test_signatures_state_the_number_of_a_method(spec, full):
    method_of(spec)
    assert full_spec(spec) == full


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("norm", "unknown method 'norm'; choose from: weights, norms, head-norms"),
        ("norms:1", "method 'norms:1': norms takes no number"),
        ("aligner:none", "method 'aligner:none': no such file"),
        ("lrp:x", "method 'lrp:x': lrp takes a number from 1e-30 to 1"),
        ("smoothgrad:1000000", "smoothgrad takes a whole number from 1 to 999999"),
    ],
)
def test_bad_names(spec, message):
    with pytest.raises(InputError, match=message):
        method_of(spec)


def test_signatures_state_the_name_of_a_file(tmp_path):
    (tmp_path / "head.safetensors").touch()
    spec = f"aligner:{tmp_path}/head.safetensors"
    assert method_of(spec).compute.keywords == {"path": f"{tmp_path}/head.safetensors"}
    assert full_spec(spec) == "aligner:head.safetensors"
    assert "aligner" not in methods_without_files()
