"""Folders of Hugging Face: which of their files are read, and what is wrong with them."""

from __future__ import annotations

import argparse
import json

import numpy as np
import pytest
import torch

from fairseq_normalign.errors import InputError
from fairseq_normalign.huggingface.folder import HuggingFaceFolder
from tests.hugging_face import BERT, check_refused, make_folder


class Hostile:
    def __reduce__(self):
        return print, ("this must not be printed",)


def bin_folder(tmp_path, value):
    folder = make_folder(tmp_path / "theirs", BERT)
    (folder / "model.safetensors").unlink()
    torch.save(value, folder / "pytorch_model.bin")
    return HuggingFaceFolder(str(folder))


def test_a_pickle_runs_no_code(tmp_path, capsys):
    folder = bin_folder(tmp_path, {"a": Hostile()})
    with pytest.raises(InputError, match=r"refused to load: it holds '.*print', which could run"):
        folder.parameters()
    assert "must not be printed" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1], "holds a list; expected PyTorch tensors"),
        ({"a": 1}, "holds more than tensors; expected PyTorch tensors"),
        # as checkpoints of fairseq may
        ({"a": np.zeros(1)}, "refused to load: it holds 'numpy.*_reconstruct', which could run"),
        (
            {"a": argparse.Namespace()},
            "refused to load: it holds 'argparse.Namespace', which could",
        ),
    ],
)
def test_a_pickle_of_something_else(value, message, tmp_path):
    with pytest.raises(InputError, match=f"pytorch_model.bin: {message}"):
        bin_folder(tmp_path, value).parameters()


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({}, "damaged or half-downloaded"),
        ({"weight_map": {"a": "none"}}, "names 'none', which is not beside it"),
        ({"weight_map": {"a": "../secret"}}, r"names '\.\./secret', which is not beside it"),
    ],
)
def test_an_index_that_is_wrong(index, message, tmp_path):
    (tmp_path / "secret").write_text("x")
    folder = make_folder(tmp_path / "theirs", BERT, {"a": torch.ones(1)})
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    check_refused(folder, message)
