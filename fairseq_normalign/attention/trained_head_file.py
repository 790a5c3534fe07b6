"""The file of trained alignment heads, one for each model: tensors and text, no pickle."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from safetensors.torch import save
from torch import Tensor, nn

from fairseq_normalign.attention.trained_head import AlignmentHead
from fairseq_normalign.attention.trained_head_states import fingerprint
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import whole_file
from fairseq_normalign.host.safetensors_file import read_safetensors

FORMAT = "normalign-aligner-1"
EXPECTED = "expected a file that normalign train-aligner wrote"

# Models that were looked at before: a fingerprint costs as much as a small batch.
_fingerprints: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()


class TrainedHead(NamedTuple):
    """A head, and the model whose states it reads."""

    head: AlignmentHead
    model: str  # its fingerprint
    languages: str  # de-en


def write_aligner(
    path: str | Path, trained: Mapping[str, TrainedHead], told: Mapping[str, Any]
) -> None:
    """Writes heads by name.

    Args:
        told: how they were trained, for people.
    """
    tensors: dict[str, Tensor] = {}
    metadata = {"format": FORMAT, "heads": ",".join(trained)}
    for name, (head, model, languages) in trained.items():
        metadata[f"{name}.model"] = model
        metadata[f"{name}.languages"] = languages
        for part, values in head._asdict().items():
            tensors[f"{name}.{part}"] = values.detach().contiguous()
    metadata |= {f"training.{name}": str(value) for name, value in told.items()}
    with whole_file(path, binary=True) as file:
        file.write(save(tensors, metadata))


@functools.lru_cache(maxsize=8)
def _read(path: str, changed: int) -> list[TrainedHead]:
    """The heads of a file, which is read again when it has changed."""
    tensors, metadata = read_safetensors(path)
    if metadata.get("format") != FORMAT:
        raise InputError(f"{path}: its format is {metadata.get('format')!r}; {EXPECTED}")
    trained = []
    for name in metadata.get("heads", "").split(","):
        try:
            parts = [tensors[f"{name}.{part}"] for part in AlignmentHead._fields]
            model, languages = metadata[f"{name}.model"], metadata[f"{name}.languages"]
        except KeyError as error:
            raise InputError(f"{path}: has no {error.args[0]}; {EXPECTED}") from None
        trained.append(TrainedHead(_checked(path, AlignmentHead(*parts)), model, languages))
    return trained


def _checked(path: str, head: AlignmentHead) -> AlignmentHead:
    shapes = [tuple(part.shape) for part in head]
    width = shapes[0][:1]
    fits = len(shapes[0]) == len(shapes[2]) == 2 and shapes[1] == width == shapes[2][:1]
    if not fits or not all(part.is_floating_point() for part in head):
        raise InputError(f"{path}: has weights of the shapes {shapes}; {EXPECTED}")
    if not all(torch.isfinite(part).all() for part in head):
        raise InputError(f"{path}: has weights that are infinite or no numbers; {EXPECTED}")
    return AlignmentHead(*[part.float() for part in head])


def head_of(path: str, model: nn.Module) -> AlignmentHead:
    """The head of a file that reads the states of this model."""
    try:
        changed = Path(path).stat().st_mtime_ns
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; {EXPECTED}") from None
    trained = _read(path, changed)
    if model not in _fingerprints:
        _fingerprints[model] = fingerprint(model)
    wanted = _fingerprints[model]
    for head, fits, _ in trained:
        if fits == wanted:
            return head
    known = " and ".join(f"{languages} {fits[:8]}" for _, fits, languages in trained)
    raise InputError(
        f"{path}: its heads read the states of other models ({known}), not of this one "
        f"({wanted[:8]}); expected the models that it was trained with"
    )
