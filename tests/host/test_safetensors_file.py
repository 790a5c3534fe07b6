"""Safetensors: what was written is read, and a damaged file gives one line."""

from __future__ import annotations

import json

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


def content(header, numbers: bytes = b"\0" * 8, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + numbers


def entry(**changes) -> dict:
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


DAMAGED = {
    "empty": b"",
    "a long header": content({}, length=10**9),
    "no JSON": content(b"{"),
    "no entry": content({"a": 1}),
    "a huge shape": content(entry(shape=[2**62, 2**62])),
    "cut off": content(entry(), b"\0" * 7),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused(name, tmp_path):
    (tmp_path / "file").write_bytes(DAMAGED[name])
    with pytest.raises(InputError, match=r"file: .*; pass a whole safetensors file"):
        read_safetensors(tmp_path / "file")


def test_no_such_file(tmp_path):
    with pytest.raises(InputError, match=r"none: .*; pass a whole safetensors file"):
        read_safetensors(tmp_path / "none")
