"""A model on its way from Hugging Face to fairseq: parameters to be taken, and the result."""

from __future__ import annotations

from argparse import Namespace
from typing import NamedTuple

from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.hugging_face import HuggingFaceFolder


class Converted(NamedTuple):
    """A model as fairseq keeps it."""

    options: Namespace
    parameters: dict[str, Tensor]
    files: dict[str, str]  # text of the other files by name, dictionaries among them
    reading: list[str]  # the options that make our commands read text as the model does
    left_out: list[str]  # Hugging Face's names of parameters that are not needed
    notes: list[str]  # what a user should know


class Parameters:
    """Hugging Face's parameters, taken one by one, so that what is left is known.

    Args:
        prefix: of the names of the encoder's parameters, where the model has a head.
    """

    def __init__(self, folder: HuggingFaceFolder, prefix: str) -> None:
        self.folder = folder
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
        """A parameter of the encoder."""
        return self.take(self.prefix + name, *shape)

    def take(self, name: str, *shape: int) -> Tensor:
        """A parameter in single precision, of the shape that the configuration promises."""
        if name not in self.by_name:
            raise InputError(f"{self.folder}: has no parameter {name!r}; are some files missing?")
        values = self.by_name.pop(name)
        if not values.is_floating_point():
            raise InputError(
                f"{self.folder}: {name!r} has numbers of the kind {values.dtype}: it is quantised; "
                "expected a model in full precision"
            )
        if values.shape != shape:
            raise InputError(
                f"{self.folder}: {name!r} has the shape {tuple(values.shape)}; by its config.json "
                f"expected {shape}"
            )
        return values.float().clone()

    def left(self) -> list[str]:
        """What nobody took, but for numbers of positions, which are no parameters."""
        return [name for name in self.by_name if not name.endswith("_ids")]
