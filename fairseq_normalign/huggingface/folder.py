"""A folder in which Hugging Face keeps a model: its configuration, parameters and tokeniser."""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import sentencepiece
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


# Hugging Face's names of activation functions, and fairseq's.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_accurate",
    "gelu_pytorch_tanh": "gelu_accurate",
    "relu": "relu",
}


def check_settings(
    folder: HuggingFaceFolder,
    *,
    usual: Mapping[str, Any],
    activation: str,
    activations: Mapping[str, str],
    dropouts: Mapping[str, float],
    numbers: Mapping[str, float],
    sizes: Iterable[str],
    switches: Iterable[str] = (),
) -> None:
    """Refuses settings that no fairseq model has, all at once.

    Args:
        usual: settings that change what a model computes, with the one value that is known here.
        activation: the setting that names the activation function, gelu if it is not there.
        activations: those that are known.
        dropouts: settings that are probabilities, with what they are if nothing is said.
        numbers: settings that are other numbers from 0, not whole ones, likewise.
        sizes: settings that are whole numbers from 1, and must be there.
        switches: settings that are true, false or null.
    """
    config = folder.config
    unusual = []
    for name, value in usual.items():
        if config.get(name, value) != value:
            unusual.append(f"{name} is {config[name]!r}")
    function = config.get(activation, "gelu")
    if not isinstance(function, str) or function not in activations:
        unusual.append(f"{activation} is {function!r}")
    unusual += _odd_numbers(config, numbers, sys.float_info.max)
    unusual += _odd_numbers(config, dropouts, 1)
    for name in sizes:
        size = config.get(name)
        if type(size) is not int or size < 1:
            unusual.append(f"{name} is {size!r}")
    for name in switches:
        if config.get(name) not in (True, False, None):
            unusual.append(f"{name} is {config[name]!r}")
    if unusual:
        raise InputError(
            f"{folder}: its config.json has what is not supported: {'; '.join(unusual)}"
        )


def _odd_numbers(
    config: Mapping[str, Any], defaults: Mapping[str, float], most: float
) -> list[str]:
    """Settings that are no numbers from 0 to ``most``, as NaN is none."""
    odd = []
    for name, default in defaults.items():
        number = config.get(name, default)
        if type(number) not in (int, float) or not 0 <= number <= most:
            odd.append(f"{name} is {number!r}")
    return odd


FEWEST_KNOWN = 0.5  # of the pieces of a SentencePiece model, by the vocabulary that it belongs to


def read_pieces(folder: HuggingFaceFolder, name: str) -> tuple[bytes, list[str]]:
    """A SentencePiece model as it is stored, and its pieces by their number."""
    path = folder.path / name
    if not path.is_file():
        raise InputError(f"{folder}: has no {name}; {_expected(folder, name)}")
    refuse_pointer(path)
    content = path.read_bytes()
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(content)
        pieces = [processor.id_to_piece(number) for number in range(processor.get_piece_size())]
    except (RuntimeError, OSError):
        pieces = []
    if not pieces:
        raise InputError(f"{path}: cannot be read; expected a SentencePiece model")
    return content, pieces


def _expected(folder: HuggingFaceFolder, name: str) -> str:
    if folder.has("tokenizer.json"):  # which transformers 5 writes instead
        return f"tokenizer.json is not enough: copy {name} from the base model"
    return "expected the SentencePiece model of its text"


def check_fits(folder: HuggingFaceFolder, name: str, pieces: list[str], known: Collection) -> None:
    """Refuses a SentencePiece model most of whose pieces the vocabulary does not know."""
    count = sum(piece in known for piece in pieces)
    if count < FEWEST_KNOWN * len(pieces):
        raise InputError(
            f"{folder.path / name}: {count} of its {len(pieces)} pieces are in the vocabulary of "
            "the model; expected the SentencePiece model that belongs to it"
        )
