"""A folder in which Hugging Face keeps a model: its configuration, parameters and tokeniser."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.checkpoint_errors import FROM_FAIRSEQ
from fairseq_normalign.host.trust import load_tensors, read_safetensors, unpickle
from fairseq_normalign.host.wordpiece import CONFIGURATION, OF_FOLDER
from fairseq_normalign.strict_json import read_json

# The files of parameters, the first that is there. An index names those of a model in several.
SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
WEIGHTS = (SAFETENSORS, f"{SAFETENSORS}.index.json", PICKLE, f"{PICKLE}.index.json")
POINTER = b"version https://git-lfs"
FOLDER = "expected the folder of a Hugging Face model"
LARGEST = 1 << 20  # no model has more words; names and tables of them are built
MOST_POSITIONS = 1 << 17  # likewise
# Hugging Face's names of activation functions, and fairseq's.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_accurate",
    "gelu_pytorch_tanh": "gelu_accurate",
    "relu": "relu",
}


class HuggingFaceFolder:
    """What is in a folder. Nothing in it is run: a pickle may hold tensors alone."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        if not self.has("config.json"):
            hint = FOLDER
            for snapshot in sorted(self.path.glob("snapshots/*/config.json")):
                hint = f"use the folder in the cache that has one: {snapshot.parent}"
            if self.has("adapter_config.json"):
                hint = "it is an adapter (LoRA): merge it with its base model first"
            raise InputError(f"{path}: no config.json in this folder; {hint}")
        self.config = self.json("config.json")

    def __str__(self) -> str:
        return str(self.path)

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()

    def file(self, name: str) -> Path:
        """The path of a file, which is none that git leaves in the place of a large file."""
        path = self.path / name
        if path.is_file():
            with path.open("rb") as file:
                if file.read(len(POINTER)) == POINTER:
                    raise InputError(f"{path}: a git-lfs pointer, not the file; run: git lfs pull")
        return path

    def json(self, name: str) -> dict[str, Any]:
        return read_json(self.file(name), OF_FOLDER)

    def optional_json(self, name: str) -> dict[str, Any]:
        return self.json(name) if self.has(name) else {}

    @functools.cached_property
    def tokenizer(self) -> dict[str, Any]:
        """``tokenizer.json``, which newer folders have instead of files of the vocabulary."""
        return self.optional_json("tokenizer.json")

    @functools.cached_property
    def tokenizer_config(self) -> dict[str, Any]:
        return self.optional_json(CONFIGURATION)

    def parameters(self) -> dict[str, Tensor]:
        """The model's tensors by Hugging Face's names."""
        stored = [name for name in WEIGHTS if self.has(name)]
        if not stored:
            raise InputError(
                f"{self.path}: no weights ({SAFETENSORS} or {PICKLE}); is the download complete?"
            )
        files = [stored[0]]
        if stored[0].endswith(".json"):
            files = list(dict.fromkeys(self.json(stored[0])["weight_map"].values()))
        parameters: dict[str, Tensor] = {}
        for name in files:
            # A name that leads out of the folder is none of ours.
            if Path(name).name != name or not self.has(name):
                raise InputError(
                    f"{self.path / stored[0]}: names {name!r}, which is not beside it; download it"
                )
            parameters.update(self._read(name))
        return parameters

    def _read(self, name: str) -> dict[str, Tensor]:
        path = self.file(name)
        if name.endswith(".safetensors"):
            return read_safetensors(path)[0]
        try:
            parameters = unpickle(str(path), mapped=True, load=load_tensors)
        except InputError as error:
            raise InputError(str(error).replace(FROM_FAIRSEQ, "expected PyTorch tensors")) from None
        for value in parameters.values():
            if not isinstance(value, Tensor) or value.layout is not torch.strided or value.is_meta:
                raise InputError(f"{path}: holds more than tensors; expected PyTorch tensors")
        return parameters


def check_settings(
    folder: HuggingFaceFolder, usual: Mapping[str, Iterable[Any]], sizes: Iterable[str]
) -> None:
    """Refuses settings that no fairseq model has, all at once.

    Args:
        usual: settings that change what a model computes, with the values that are known here; the
            first is meant where nothing is said.
        sizes: settings that are whole numbers from 1, and must be there.
    """
    config = folder.config
    odd = []
    for name, values in usual.items():
        known = list(values)
        if config.get(name, known[0]) not in known:
            odd.append(f"{name} is {config[name]!r}")
    for name in sizes:
        size = config.get(name)
        largest = MOST_POSITIONS if name == "max_position_embeddings" else LARGEST
        if type(size) is not int or not 1 <= size <= largest:
            odd.append(f"{name} is {size!r}")
    if odd:
        raise InputError(f"{folder}: config.json has unsupported settings: {'; '.join(odd)}")
