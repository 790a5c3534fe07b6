"""A folder in which Hugging Face keeps a model: its configuration, parameters and tokeniser."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.checkpoint_errors import FROM_FAIRSEQ
from fairseq_normalign.host.json_files import read_json
from fairseq_normalign.host.safetensors_file import read_safetensors
from fairseq_normalign.host.trust import load_tensors, unpickle
from fairseq_normalign.host.wordpiece import CONFIGURATION, OF_FOLDER

# The files of parameters, the first that is there. An index names those of a model in several.
SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
WEIGHTS = (SAFETENSORS, f"{SAFETENSORS}.index.json", PICKLE, f"{PICKLE}.index.json")
POINTER = b"version https://git-lfs"
FOLDER = "expected the folder of a Hugging Face model"


def refuse_pointer(path: Path) -> None:
    """Refuses what git leaves in the place of a large file."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise InputError(f"{path}: is a pointer to a file that git-lfs has; run: git lfs pull")


class HuggingFaceFolder:
    """What is in a folder. Nothing in it is run: a pickle may hold tensors alone."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise InputError(f"{path}: no such directory; {FOLDER}")
        if not self.has("config.json"):
            raise InputError(f"{path}: has no config.json; {self._hint()}")
        self.config = self.json("config.json")

    def _hint(self) -> str:
        """What to name instead of a folder without a model."""
        if self.has("adapter_config.json"):
            return "it is an adapter (LoRA): merge it with its base model first"
        snapshots = sorted(self.path.glob("snapshots/*/config.json"))
        if snapshots:
            return f"expected the folder in the cache that has: {snapshots[0].parent}"
        return FOLDER

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()

    def json(self, name: str) -> dict[str, Any]:
        refuse_pointer(self.path / name)
        return read_json(self.path / name, OF_FOLDER)

    @functools.cached_property
    def tokenizer(self) -> dict[str, Any]:
        """``tokenizer.json``, which newer folders have instead of files of the vocabulary."""
        return self.json("tokenizer.json") if self.has("tokenizer.json") else {}

    @functools.cached_property
    def tokenizer_config(self) -> dict[str, Any]:
        return self.json(CONFIGURATION) if self.has(CONFIGURATION) else {}

    def parameters(self) -> dict[str, Tensor]:
        """The model's tensors by Hugging Face's names."""
        for name in WEIGHTS:
            if self.has(name):
                break
        else:
            raise InputError(f"{self.path}: has no parameters; expected {SAFETENSORS} or {PICKLE}")
        if not name.endswith(".json"):
            return self._read(name)
        parameters: dict[str, Tensor] = {}
        for file, names in self._shards(name).items():
            shard = self._read(file)
            missing = [parameter for parameter in names if parameter not in shard]
            if missing:
                raise InputError(f"{self.path / file}: lacks {missing[0]!r}, which {name} promises")
            parameters.update((parameter, shard[parameter]) for parameter in names)
        return parameters

    def _shards(self, index: str) -> dict[str, list[str]]:
        """The files of a model in several, each with the parameters that it has."""
        places = self.json(index).get("weight_map")
        if not isinstance(places, dict) or not places:
            raise InputError(f"{self.path / index}: has no weight_map; {FOLDER}")
        shards: dict[str, list[str]] = {}
        for parameter, file in places.items():
            # A name that leads out of the folder is none of ours.
            if not isinstance(file, str) or Path(file).name != file or not self.has(file):
                raise InputError(
                    f"{self.path / index}: {parameter!r} is in {file!r}; expected a file beside it"
                )
            shards.setdefault(file, []).append(parameter)
        return shards

    def _read(self, name: str) -> dict[str, Tensor]:
        path = self.path / name
        refuse_pointer(path)
        if name.endswith(".safetensors"):
            return read_safetensors(path).tensors
        try:
            parameters = unpickle(str(path), mapped=True, load=load_tensors)
        except InputError as error:
            raise InputError(str(error).replace(FROM_FAIRSEQ, "expected PyTorch tensors")) from None
        for key, value in parameters.items():
            if not isinstance(key, str):
                raise InputError(f"{path}: a tensor is called {key!r}; expected names")
            if not isinstance(value, Tensor):
                raise InputError(f"{path}: {key!r} is no tensor; expected PyTorch tensors")
            if value.is_meta or value.layout is not torch.strided:
                kind = "without numbers" if value.is_meta else "that is sparse"
                raise InputError(f"{path}: {key!r} is a tensor {kind}; expected all its numbers")
        return parameters

    def __str__(self) -> str:
        return str(self.path)
