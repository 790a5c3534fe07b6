"""Tensors and texts of a safetensors file."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open
from torch import Tensor

from fairseq_normalign.errors import InputError

EXPECTED = "pass a whole safetensors file"


class Contents(NamedTuple):
    """What a file holds. Tensors stay in the file until they are looked at."""

    tensors: dict[str, Tensor]
    metadata: dict[str, str]


def read_safetensors(path: str | Path) -> Contents:
    """The contents of a file; a damaged one is refused in one line."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return Contents(tensors, file.metadata() or {})
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; {EXPECTED}") from None
    except (SafetensorError, ValueError, RuntimeError, OverflowError, MemoryError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: damaged ({reason}); {EXPECTED}") from None
