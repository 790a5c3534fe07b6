"""A model on its way from one format to the other: parameters, vocabulary, and the result."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.special_tokens import PAD, SPECIAL
from fairseq_normalign.huggingface.folder import HuggingFaceFolder, Tensors

MODEL = "model.pt"  # what the checkpoint is called
PRECISIONS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
RESERVED = PAD + 1  # rows of fairseq's table of positions that no token has
FILLERS = 128  # at most so many rows fill embeddings up, as to a multiple of 128
Files = dict[str, str | bytes]  # contents by name


class Converted(NamedTuple):
    """A model as fairseq keeps it."""

    options: Namespace
    parameters: Tensors
    files: Files  # all but the checkpoint, dictionaries among them
    commands: list[str]  # what a user does next; {dir} becomes the folder that is written
    left_out: list[str]  # Hugging Face's names of parameters that are not needed
    notes: list[str]  # what a user should know


class Parameters:
    """A model's parameters, taken one by one, so that what is left is known.

    Their shapes are checked when all are there (see ``checkpoint.check_fit``). Those in half
    precision stay so: commands compute in single precision whatever a checkpoint has.

    Args:
        where: whose they are, for messages.
        prefix: of the names of all parameters but the head's, where the model has a head; they are
            asked for without it.
    """

    def __init__(self, where: str, parameters: Tensors, prefix: str = "") -> None:
        self.where, self.taken = where, set[str]()
        self.by_name: Tensors = {}
        for name, values in parameters.items():
            name = name.replace("LayerNorm.gamma", "LayerNorm.weight")  # so in old files
            name = name.replace("LayerNorm.beta", "LayerNorm.bias")
            self.by_name[name.removeprefix(prefix)] = values

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def take(self, name: str) -> Tensor:
        """A parameter, which may stay in its file."""
        values = self.by_name.get(name)
        if values is None:
            raise InputError(f"{self.where}: no parameter {name!r}, which its options call for")
        if values.dtype not in PRECISIONS:
            raise InputError(
                f"{self.where}: {name!r} has numbers of type {values.dtype}; quantized models are "
                "not supported"
            )
        self.taken.add(name)
        return values.float() if values.dtype == torch.float64 else values

    def first(self, names: Sequence[str]) -> Tensor:
        """A parameter that may be stored by any of some names; the others are copies."""
        stored = [name for name in names if name in self]
        self.taken.update(stored)
        return self.take((stored or names)[0])

    def weight_and_bias(self, name: str, ours: str = "") -> Tensors:
        """Both parameters of a linear map or a LayerNorm, by another name if it has one here."""
        return {
            f"{ours or name}.weight": self.take(f"{name}.weight"),
            f"{ours or name}.bias": self.take(f"{name}.bias"),
        }

    def left(self) -> list[str]:
        """What nobody took, but for numbers of positions, which are no parameters."""
        left = [name for name in self.by_name if name not in self.taken]
        return [name for name in left if not name.endswith("_ids")]


class Vocabulary(NamedTuple):
    """Names of rows, and which of them come where in fairseq's dictionary."""

    names: list[str]
    order: list[int]  # for each entry of the dictionary, its row; rows may come twice

    def rows(self, values: Tensor) -> Tensor:
        """Embeddings or biases in fairseq's order, (V, …)."""
        if len(values) != len(self.names):
            raise ValueError(f"{len(values)} rows for {len(self.names)} tokens")
        if self.order == list(range(len(values))):
            return values  # which may be large, and still in its file
        return values[torch.tensor(self.order)]

    def dictionary(self) -> str:
        """The text of fairseq's ``dict.txt``, which leaves the special tokens out."""
        others = self.order[len(SPECIAL) :]
        return "".join(f"{self.names[row]} 1\n" for row in others)


def vocabulary(
    folder: HuggingFaceFolder,
    numbers: Mapping[str, int],
    size: int,
    special: Sequence[int],
    *,
    fillers: int = FILLERS,
) -> Vocabulary:
    """Names of rows; those that have none get fairseq's fillers.

    Args:
        numbers: of pieces and other tokens.
        size: how many rows the model has.
        special: the rows of <s>, <pad>, </s> and <unk>.
        fillers: how many rows may have no name.
    """
    names = []
    for row in range(size):
        name = f"madeupword{row:04d}"
        names.append(f"{name}_" if name in numbers else name)
    for name, number in [*numbers.items(), *zip(SPECIAL, special, strict=True)]:
        if type(number) is not int or not 0 <= number < size:
            raise InputError(
                f"{folder}: token {name!r} has the number {number}, but the model has {size} "
                "embeddings; use the tokenizer of this model"
            )
        # fairseq's dictionary has blanks after names, and its own names for the first four.
        if name and not re.search("[ \r\n]", name) and name not in SPECIAL:
            names[number] = name
    unnamed = size - len(set(numbers.values()))
    if unnamed > fillers:
        raise InputError(
            f"{folder}: its tokenizer names {size - unnamed} of the model's {size} tokens; use the "
            "tokenizer of this model"
        )
    others = [row for row in range(size) if row not in special]
    return Vocabulary(names, [*special, *others])
