"""The file of alignment heads: what was written is read, and anything else is refused."""

import json

import pytest
import torch
from safetensors.torch import save_file

from fairseq_normalign.attention.trained_head import (
    AlignmentHead,
    TrainedHead,
    fingerprint,
    head_of,
    write_aligner,
)
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.safetensors_file import read_safetensors
from tests.conftest import build_model


def head(seed: int = 1) -> AlignmentHead:
    return AlignmentHead.random(6, 4, width=3, generator=torch.Generator().manual_seed(seed))


def test_each_model_finds_its_own_head(tmp_path):
    forward, backward = build_model(), build_model(decoder_layers=1)
    trained = {
        "forward": TrainedHead(head(1), fingerprint(forward), "de-en"),
        "backward": TrainedHead(head(2), fingerprint(backward), "en-de"),
    }
    path = tmp_path / "aligner.safetensors"
    write_aligner(path, trained, {"seed": 7})
    assert json.loads(read_safetensors(path).metadata["normalign"])["training.seed"] == "7"
    for model, seed in ((forward, 1), (backward, 2), (forward, 1)):
        for part, expected in zip(head_of(str(path), model), head(seed), strict=True):
            assert torch.equal(part, expected)


def test_a_file_that_has_changed_is_read_again(tmp_path):
    model = build_model()
    path = tmp_path / "aligner.safetensors"
    for seed in (1, 2):
        write_aligner(path, {"forward": TrainedHead(head(seed), fingerprint(model), "de-en")}, {})
        assert torch.equal(head_of(str(path), model).query, head(seed).query)


def test_another_model_is_refused(tmp_path):
    path = tmp_path / "aligner.safetensors"
    write_aligner(path, {"forward": TrainedHead(head(), "0123456789abcdef", "de-en")}, {})
    with pytest.raises(InputError, match=r"of other models \(de-en 01234567\), not of this one"):
        head_of(str(path), build_model())


GOOD = {
    "format": "normalign-aligner-1",
    "heads": "forward",
    "forward.model": "0",
    "forward.languages": "de-en",
}


WEIGHTS = {f"forward.{name}": part for name, part in head()._asdict().items()}


@pytest.mark.parametrize(
    ("metadata", "tensors"),
    [
        ({}, WEIGHTS),
        ([], WEIGHTS),
        (GOOD, {"x": torch.zeros(1)}),
        ({**GOOD, "heads": 1}, WEIGHTS),
        ({"format": GOOD["format"], "heads": "forward"}, WEIGHTS),
        (GOOD, {**WEIGHTS, "forward.query_bias": torch.zeros(2)}),
        (GOOD, {**WEIGHTS, "forward.query": torch.zeros(3)}),
        (GOOD, {**WEIGHTS, "forward.key": torch.full((3, 4), torch.nan)}),
    ],
)
def test_other_files_are_refused(metadata, tensors, tmp_path):
    path = tmp_path / "file"
    save_file(tensors, path, {"normalign": json.dumps(metadata)})
    message = "not a file of alignment heads, or damaged; expected a file that normalign train-al"
    with pytest.raises(InputError, match=message):
        head_of(str(path), build_model())
