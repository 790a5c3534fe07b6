"""Safetensors: what was written is read, and a damaged file is refused before a tensor is made."""

from __future__ import annotations

import importlib
import json
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from fairseq_normalign.errors import InputError
from fairseq_normalign.host import safetensors_file
from fairseq_normalign.host.safetensors_file import DTYPES, read_safetensors
from tests.hugging_face import write_safetensors


def tensors() -> dict[str, torch.Tensor]:
    return {
        "matrix": torch.arange(6.0).reshape(2, 3),
        "half": torch.tensor([0.1, -2.0]).half(),
        "brain": torch.tensor([0.1, 3e38]).bfloat16(),
        "scalar": torch.tensor(7.5),
        "none": torch.zeros(0, 4),
    }


def test_what_was_written_is_read(tmp_path):
    write_safetensors(tmp_path / "file", tensors())
    read = read_safetensors(tmp_path / "file")
    assert read.keys() == tensors().keys()
    for name, values in tensors().items():
        torch.testing.assert_close(read[name], values, atol=0, rtol=0)
        assert read[name].dtype == values.dtype


def test_our_own_writer_writes_the_same_bytes(tmp_path):
    """Those of the tests' writer, which puts all numbers together first; views are copied out."""
    views = {"turned": torch.arange(6.0).reshape(2, 3).T, "every other": torch.arange(8.0)[::2]}
    written = {**tensors(), **views}
    safetensors_file.write_safetensors(tmp_path / "ours", written, {"format": "pt"})
    whole = {name: values.contiguous() for name, values in written.items()}
    write_safetensors(tmp_path / "theirs", whole)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_numbers_are_written_one_tensor_after_the_other(tmp_path, monkeypatch):
    """No second copy of a model is in memory: nothing that is written is longer than a tensor."""
    lengths = []

    @contextmanager
    def file(path, binary):
        yield SimpleNamespace(write=lambda content: lengths.append(memoryview(content).nbytes))

    monkeypatch.setattr(safetensors_file, "whole_file", file)
    values = {"a": torch.ones(100), "b": torch.ones(50, 2).half()}
    safetensors_file.write_safetensors(tmp_path / "file", values, {})
    assert lengths[1:] == [400, 200]


def test_the_file_is_not_written_to(tmp_path):
    write_safetensors(tmp_path / "file", tensors())
    before = (tmp_path / "file").read_bytes()
    read_safetensors(tmp_path / "file")["matrix"].zero_()
    assert (tmp_path / "file").read_bytes() == before


@pytest.mark.parametrize("kind", DTYPES.values(), ids=DTYPES)
def test_what_the_package_writes_is_read(kind, tmp_path):
    try:
        package = importlib.import_module("safetensors.torch")
    except ImportError:
        pytest.skip("safetensors is not installed, whose files are compared")
    written = {"b": torch.tensor([[0, 1], [1, 1]]).to(kind), "a": torch.ones(3).to(kind)}
    package.save_file(written, tmp_path / "file")
    read = read_safetensors(tmp_path / "file")
    for name, values in written.items():
        torch.testing.assert_close(read[name], values, atol=0, rtol=0)


def content(header, numbers: bytes = b"\0" * 8, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + numbers


def entry(**changes) -> dict:
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


TWICE = b'{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":{}}'
DAMAGED = {
    "empty": (b"", "is empty; expected a whole safetensors file"),
    "too short": (b"\1\0", "its header would have 1 bytes, and the file has 2"),
    "a long header": (content({}, length=10**9), "its header would have 1000000000 bytes"),
    "a header cut off": (content({}, b"", length=3), "header would have 3 bytes, and the file"),
    "no JSON": (content(b"{"), "its header is damaged"),
    "no UTF-8": (content(b"\xff\xff"), "its header is damaged"),
    "no object": (content([]), "its header is damaged"),
    "a name twice": (content(TWICE, b""), "its header is damaged"),
    "no entry": (content({"a": 1}), "'a' has the offsets None"),
    "one offset": (content(entry(data_offsets=[0])), r"'a' has the offsets \[0\]"),
    "no numbers": (content(entry(data_offsets=[0, "8"])), r"'a' has the offsets \[0, '8'\]"),
    "below zero": (content(entry(data_offsets=[-8, 0])), r"'a' has the offsets \[-8, 0\]"),
    "no shape": (content(entry(shape=None)), "'a' of the shape None has 8 bytes of F32"),
    "another size": (content(entry(shape=[3])), r"'a' of the shape \[3\] has 8 bytes of F32"),
    "a huge shape": (content(entry(shape=[2**62, 2**62])), "has 8 bytes of F32"),
    "truth as a size": (content(entry(shape=[True, 2])), "has 8 bytes of F32"),
    "cut off": (content(entry(), b"\0" * 7), "'a' is at 0 to 8 of 7 bytes"),
    "too much": (content(entry(), b"\0" * 9), "1 bytes too many"),
    "a hole": (content(entry(data_offsets=[4, 12]), b"\0" * 12), "'a' is at 4 to 12 of 12 bytes"),
    "no kind": (content(entry(dtype=[])), r"'a' has numbers of the kind \[\]; expected F64, F32"),
    "a huge shape of nothing": (
        content(entry(shape=[0, 2**62, 2**62], data_offsets=[0, 0]), b""),
        r"'a' has the shape \[0, 4611686018427387904, 4611686018427387904\]",
    ),
    "a size that no number of PyTorch holds": (
        content(entry(shape=[0, 2**70], data_offsets=[0, 0]), b""),
        r"'a' has the shape \[0, 1180591620717411303424\]",
    ),
    "a shape of two lines": (content(entry(shape="\n")), r"'a' of the shape '\\n' has 8 bytes"),
    "endless": (content(b'{"a": Infinity}'), "its header is damaged"),
    "complex": (
        content(entry(dtype="C64", shape=[1])),
        "'a' has numbers of the kind 'C64'; expected F64, F32",
    ),
    "an overlap": (
        content({**entry(), "b": entry(data_offsets=[4, 12])["a"]}, b"\0" * 12),
        "'b' is at 4 to 12 of 12 bytes",
    ),
    "quantised": (
        content(entry(dtype="F8_E4M3", data_offsets=[0, 2])),
        "'a' has numbers of the kind 'F8_E4M3'; expected F64, F32",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused(name, tmp_path):
    damaged, message = DAMAGED[name]
    (tmp_path / "file").write_bytes(damaged)
    with pytest.raises(InputError, match=f"file: .*{message}"):
        read_safetensors(tmp_path / "file")


def test_no_such_file(tmp_path):
    with pytest.raises(InputError, match="none: No such file or directory; expected a whole"):
        read_safetensors(tmp_path / "none")
