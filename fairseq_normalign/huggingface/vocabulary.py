"""The rows of a Hugging Face model's word embeddings, by name, in fairseq's order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.dictionaries import SPECIAL
from fairseq_normalign.huggingface.folder import HuggingFaceFolder

FILLERS = 128  # at most so many rows fill embeddings up, as to a multiple of 128


class Vocabulary(NamedTuple):
    """Names of rows, and which of them come where in fairseq's dictionary."""

    names: list[str]
    order: list[int]  # for each entry of the dictionary, its row; rows may come twice

    def rows(self, values: Tensor) -> Tensor:
        """Embeddings or biases in fairseq's order, (V, …)."""
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
    names = [_filler(row, numbers) for row in range(size)]
    for name, number in numbers.items():
        if number >= size:
            raise InputError(f"{folder}: {name!r} has the number {number}; the model knows {size}")
        # fairseq's dictionary has blanks after names, and its own names for the first four.
        if name and not re.search("[ \r\n]", name) and name not in SPECIAL:
            names[number] = name
    unnamed = size - len(set(numbers.values()))
    if unnamed > fillers:
        raise InputError(
            f"{folder}: its tokeniser names {size - unnamed} of the {size} tokens that the model "
            "knows; expected the tokeniser of the model"
        )
    first = set(special)
    others = [row for row in range(size) if row not in first]
    return Vocabulary(names, [*special, *others])


def _filler(row: int, numbers: Mapping[str, int]) -> str:
    """The name of a row that has none, as fairseq's fillers, unless a piece is called so."""
    name = f"madeupword{row:04d}"
    while name in numbers:
        name += "_"
    return name
