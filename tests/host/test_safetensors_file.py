"""Safetensors: what was written is read, and a damaged file gives one line."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.safetensors_file import read_safetensors


def tensors() -> dict[str, torch.Tensor]:
    return {
        "matrix": torch.arange(6.0).reshape(2, 3),
        "half": torch.tensor([0.1, -2.0]).half(),
        "brain": torch.tensor([0.1, 3e38]).bfloat16(),
        "scalar": torch.tensor(7.5),
        "none": torch.zeros(0, 4),
    }


def test_what_was_written_is_read(tmp_path):
    save_file(tensors(), tmp_path / "file", {"from": "ä"})
    read, metadata = read_safetensors(tmp_path / "file")
    assert metadata == {"from": "ä"}
    assert read.keys() == tensors().keys()
    for name, values in tensors().items():
        torch.testing.assert_close(read[name], values, atol=0, rtol=0)
        assert read[name].dtype == values.dtype


def test_what_is_missing_or_cut_off_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"file: .*; pass a whole safetensors file"):
        read_safetensors(tmp_path / "file")
    save_file(tensors(), tmp_path / "file")
    (tmp_path / "file").write_bytes((tmp_path / "file").read_bytes()[:-1])
    with pytest.raises(InputError, match=r"file: .*; pass a whole safetensors file"):
        read_safetensors(tmp_path / "file")
