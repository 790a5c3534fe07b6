"""A model on its way from Hugging Face to fairseq: parameters to be taken, and the result."""

from __future__ import annotations

from argparse import Namespace
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.dictionaries import PAD
from fairseq_normalign.huggingface.folder import HuggingFaceFolder

MODEL = "model.pt"  # what the checkpoint is called
HALVES = (torch.float16, torch.bfloat16)
PRECISIONS = (*HALVES, torch.float32, torch.float64)
FULL_PRECISION = "expected a model in full precision"
RESERVED = PAD + 1  # rows of fairseq's table of positions that no token has
DIR = "DIR"  # stands for the folder that is written, in commands


class Converted(NamedTuple):
    """A model as fairseq keeps it."""

    options: Namespace
    parameters: dict[str, Tensor]
    files: dict[str, str | bytes]  # contents of the other files by name, dictionaries among them
    commands: list[list[str]]  # what a user does next; DIR and names of files become their paths
    left_out: list[str]  # Hugging Face's names of parameters that are not needed
    notes: list[str]  # what a user should know


class Parameters:
    """Hugging Face's parameters, taken one by one, so that what is left is known.

    Args:
        prefix: of the names of all parameters but the head's, where the model has a head.
        halves: whether those in half precision stay so. Commands compute in single precision
            whatever a checkpoint has; it is half as large.
    """

    def __init__(self, folder: HuggingFaceFolder, prefix: str, *, halves: bool = False) -> None:
        self.folder, self.halves = folder, halves
        self.by_name: dict[str, Tensor] = {}
        for name, values in folder.parameters().items():
            name = name.replace("LayerNorm.gamma", "LayerNorm.weight")  # so in old files
            name = name.replace("LayerNorm.beta", "LayerNorm.bias")
            self.by_name[name] = values
        is_prefixed = any(name.startswith(prefix) for name in self.by_name)
        self.prefix = prefix if is_prefixed else ""

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def inner(self, name: str, *shape: int) -> Tensor:
        """A parameter that is not the head's."""
        return self.take(self.prefix + name, *shape)

    def take(self, name: str, *shape: int) -> Tensor:
        """A parameter of the shape that the configuration promises.

        One that is not converted stays in its file until it is written.
        """
        values = self._of_shape(name, shape)
        del self.by_name[name]
        if values.dtype not in PRECISIONS:
            is_quantised = not values.is_complex() and values.dtype != torch.bool
            raise InputError(
                f"{self.folder}: {name!r} has numbers of the kind {values.dtype}"
                f"{': it is quantised' if is_quantised else ''}; {FULL_PRECISION}"
            )
        return values if self.halves and values.dtype in HALVES else values.float()

    def check_inner(self, name: str, *shape: int) -> None:
        """Refuses a parameter, not of the head, of another shape than the configuration tells."""
        self._of_shape(self.prefix + name, shape)

    def _of_shape(self, name: str, shape: tuple[int, ...]) -> Tensor:
        if name not in self.by_name:
            raise InputError(f"{self.folder}: has no parameter {name!r}; are some files missing?")
        values = self.by_name[name]
        if values.shape != shape:
            raise InputError(
                f"{self.folder}: {name!r} has the shape {tuple(values.shape)}; by its config.json "
                f"expected {shape}"
            )
        return values

    def drop(self, *names: str) -> None:
        """Forgets parameters, not of the head, that are copies of others."""
        for name in names:
            self.by_name.pop(self.prefix + name, None)

    def has(self, name: str) -> bool:
        """Whether there is a parameter of this name that is not the head's."""
        return self.prefix + name in self.by_name

    def left(self) -> list[str]:
        """What nobody took, but for numbers of positions, which are no parameters."""
        return [name for name in self.by_name if not name.endswith("_ids")]
