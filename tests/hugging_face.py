"""Small folders as Hugging Face keeps models, made without its packages, and what a model computes.

``states`` is a slow twin: BERT and RoBERTa in the names of Hugging Face, one token after the other.
"""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from fairseq_normalign.errors import InputError
from fairseq_normalign.huggingface.conversion import import_folder

PIECES = [
    *("[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat"),
    *("un", "##aff", "##able", "##s", ".", ",", "a", "##a", "b", "##b", "c", "##c"),
]
BERT = {
    "architectures": ["BertForMaskedLM"],
    "model_type": "bert",
    "vocab_size": len(PIECES),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "max_position_embeddings": 20,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
    "pad_token_id": 0,
}
LETTERS = ["Ġ", "a", "b", "c", "t", "h", "e", ".", "Ã", "©"]
MERGES = ["t h", "th e", "Ġ a", "a b"]
BYTE_PIECES = [
    *("<s>", "<pad>", "</s>", "<unk>", *LETTERS, *(merge.replace(" ", "") for merge in MERGES)),
    "<mask>",
]
ROBERTA = {
    **BERT,
    "architectures": ["RobertaForMaskedLM"],
    "model_type": "roberta",
    "vocab_size": len(BYTE_PIECES),
    "max_position_embeddings": 22,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}


def of_transformers(name: str) -> Any:
    """A class of the package; tests that compare with it are skipped where it is not there."""
    if importlib.util.find_spec("transformers") is None:
        pytest.skip(f"transformers is not installed, whose {name} is compared")
    with without_torchaudio():
        return getattr(importlib.import_module("transformers"), name)


@contextmanager
def without_torchaudio() -> Iterator[None]:
    """An empty module instead of torchaudio, unless it is imported already.

    transformers imports it if it is installed, which it remembers. Here it may be of another
    PyTorch and fail, and nothing of it is needed.
    """
    if "torchaudio" in sys.modules:
        yield
        return
    empty = ModuleType("torchaudio")
    empty.__spec__ = ModuleSpec("torchaudio", None)
    sys.modules["torchaudio"] = empty
    try:
        yield
    finally:
        del sys.modules["torchaudio"]


def random_parameters(config: dict, *, head: bool = True, seed: int = 1) -> dict[str, Tensor]:
    """By Hugging Face's names."""
    draws = torch.Generator().manual_seed(seed)
    kind, width, inner = config["model_type"], config["hidden_size"], config["intermediate_size"]
    size = config["vocab_size"]
    shapes = {
        "embeddings.word_embeddings.weight": (size, width),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], width),
        "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], width),
        **norm("embeddings.LayerNorm", width),
    }
    for layer in range(config["num_hidden_layers"]):
        place = f"encoder.layer.{layer}"
        for name in ("query", "key", "value"):
            shapes.update(linear(f"{place}.attention.self.{name}", width, width))
        shapes.update(linear(f"{place}.attention.output.dense", width, width))
        shapes.update(norm(f"{place}.attention.output.LayerNorm", width))
        shapes.update(linear(f"{place}.intermediate.dense", inner, width))
        shapes.update(linear(f"{place}.output.dense", width, inner))
        shapes.update(norm(f"{place}.output.LayerNorm", width))
    shapes.update(linear("pooler.dense", width, width))
    if head:
        shapes = {f"{kind}.{name}": shape for name, shape in shapes.items()}
        if kind == "bert":
            shapes.update(linear("cls.predictions.transform.dense", width, width))
            shapes.update(norm("cls.predictions.transform.LayerNorm", width))
            shapes["cls.predictions.bias"] = (size,)
            shapes.update(linear("cls.seq_relationship", 2, width))
        else:
            shapes.update(linear("lm_head.dense", width, width))
            shapes.update(norm("lm_head.layer_norm", width))
            shapes["lm_head.bias"] = (size,)
    return {name: torch.randn(shape, generator=draws) * 0.5 for name, shape in shapes.items()}


def linear(name: str, rows: int, columns: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}


def norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def write_safetensors(path: Path, tensors: dict[str, Tensor]) -> None:
    whole = {name: values.contiguous().clone() for name, values in tensors.items()}
    save_file(whole, path, {"format": "pt"})


def make_folder(path: Path, config: dict, parameters: dict[str, Tensor] | None = None) -> Path:
    """A folder of a model, with random parameters if none are given."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    if config["model_type"] == "bert":
        (path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES))
    else:
        numbers = {piece: number for number, piece in enumerate(BYTE_PIECES)}
        (path / "vocab.json").write_text(json.dumps(numbers))
        merges = "".join(f"{merge}\n" for merge in ["#version: 0.2", *MERGES])
        (path / "merges.txt").write_text(merges, encoding="utf-8")
    if parameters is None:
        parameters = random_parameters(config)
    write_safetensors(path / "model.safetensors", parameters)
    return path


def check_refused(folder: Path, message: str) -> None:
    """In one line; nothing is left of what was begun."""
    before = sorted(folder.parent.iterdir())
    with pytest.raises(InputError, match=message) as caught:
        import_folder(str(folder), str(folder.with_name("refused")))
    assert "\n" not in str(caught.value)
    assert str(folder.parent) in str(caught.value)
    assert sorted(folder.parent.iterdir()) == before


def symbols_of(folder: Path) -> list[str]:
    return Dictionary.load(str(folder / "dict.txt")).symbols


def states(config: dict, parameters: dict[str, Tensor], ids: list[int]) -> list[Tensor]:
    """The embeddings and the output of each layer, (S, C) each."""
    prefix = f"{config['model_type']}."
    inner = {name.removeprefix(prefix): values.double() for name, values in parameters.items()}
    is_roberta = config["model_type"] == "roberta"
    separator = PIECES.index("[SEP]")
    segment, embedded = 0, []
    for place, number in enumerate(ids):
        position = place + 2 if is_roberta else place
        embedded.append(
            inner["embeddings.word_embeddings.weight"][number]
            + inner["embeddings.position_embeddings.weight"][position]
            + inner["embeddings.token_type_embeddings.weight"][segment]
        )
        if number == separator and not is_roberta:
            segment = 1
    x = normalised(config, inner, "embeddings.LayerNorm", torch.stack(embedded))
    hidden = [x]
    for layer in range(config["num_hidden_layers"]):
        place = f"encoder.layer.{layer}"
        attended = mapped(
            inner, f"{place}.attention.output.dense", attention(config, inner, place, x)
        )
        x = normalised(config, inner, f"{place}.attention.output.LayerNorm", attended + x)
        wide = activated(config, mapped(inner, f"{place}.intermediate.dense", x))
        fed = mapped(inner, f"{place}.output.dense", wide)
        x = normalised(config, inner, f"{place}.output.LayerNorm", fed + x)
        hidden.append(x)
    return hidden


def attention(config: dict, inner: dict[str, Tensor], place: str, x: Tensor) -> Tensor:
    query = mapped(inner, f"{place}.attention.self.query", x)
    key = mapped(inner, f"{place}.attention.self.key", x)
    value = mapped(inner, f"{place}.attention.self.value", x)
    width = config["hidden_size"] // config["num_attention_heads"]
    mixed = torch.zeros_like(x)
    for head in range(config["num_attention_heads"]):
        part = slice(head * width, (head + 1) * width)
        for i in range(len(x)):
            scores = torch.stack([query[i, part] @ key[j, part] for j in range(len(x))])
            weights = torch.softmax(scores / math.sqrt(width), dim=0)
            mixed[i, part] = sum(weights[j] * value[j, part] for j in range(len(x)))
    return mixed


def mapped(inner: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return x @ inner[f"{name}.weight"].T + inner[f"{name}.bias"]


def normalised(config: dict, inner: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    deviation = (x.var(-1, correction=0, keepdim=True) + config["layer_norm_eps"]).sqrt()
    return (
        inner[f"{name}.weight"] * (x - x.mean(-1, keepdim=True)) / deviation + inner[f"{name}.bias"]
    )


def activated(config: dict, x: Tensor) -> Tensor:
    if config["hidden_act"] == "relu":
        return x.clamp(min=0)
    return functional.gelu(x, approximate="none" if config["hidden_act"] == "gelu" else "tanh")


def guesses(config: dict, parameters: dict[str, Tensor], features: Tensor) -> Tensor:
    """Logits of the words of the vocabulary, (S, V)."""
    double = {name: values.double() for name, values in parameters.items()}
    kind = config["model_type"]
    if kind == "bert":
        dense, layer_norm = "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"
        bias, own = "cls.predictions.bias", "cls.predictions.decoder.weight"
    else:
        dense, layer_norm = "lm_head.dense", "lm_head.layer_norm"
        bias, own = "lm_head.bias", "lm_head.decoder.weight"
    x = normalised(config, double, layer_norm, activated(config, mapped(double, dense, features)))
    words = double.get(own, double[f"{kind}.embeddings.word_embeddings.weight"])
    return x @ words.T + double[bias]
