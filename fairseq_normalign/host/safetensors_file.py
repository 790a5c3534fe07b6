"""Tensors of a safetensors file: the length of a JSON header, the header, and raw numbers.

Read here, not by the package of that name: the format is small, a damaged or hostile file is
refused in our own words before a tensor is made, and importing a model needs no package more.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeGuard

import torch
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import whole_file
from fairseq_normalign.strict_json import parse_json

EXPECTED = "expected a whole safetensors file"
LENGTH = 8  # bytes of the header's length, the lowest first
LONGEST_HEADER = 100_000_000  # as the format says
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
METADATA = "__metadata__"
MOST_NUMBERS = 1 << 59  # whose bytes PyTorch can still count


def read_safetensors(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a file by name. They stay in the file until they are looked at."""
    content = _content(path)
    header, start = _header(path, content)
    header.pop(METADATA, None)
    tensors = {}
    end_of_last = 0
    for name, entry in sorted(header.items(), key=lambda item: _offsets(path, *item)):
        dtype, shape, (begin, end) = _described(path, name, entry)
        if begin != end_of_last or end > len(content) - start:
            _refuse(path, f"{name!r} is at {begin} to {end} of {len(content) - start} bytes")
        tensors[name] = _tensor(content, start + begin, dtype, shape)
        end_of_last = end
    if end_of_last != len(content) - start:
        _refuse(path, f"{len(content) - start - end_of_last} bytes too many")
    return tensors


def read_metadata(path: str | Path) -> dict[str, str]:
    """What a file tells of itself, by name; empty if it tells nothing."""
    metadata = _header(path, _content(path))[0].get(METADATA, {})
    if not isinstance(metadata, dict) or not all(map(_is_text, metadata.values())):
        _refuse(path, "its metadata are no texts")
    return metadata


def _is_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str)


def write_safetensors(
    path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> None:
    """Writes tensors and texts about them; the same ones are the same bytes."""
    kinds = {dtype: kind for kind, dtype in DTYPES.items()}
    header: dict[str, Any] = {METADATA: dict(metadata)}
    begin = 0
    for name, values in tensors.items():
        end = begin + values.numel() * values.element_size()
        header[name] = {
            "dtype": kinds[values.dtype],
            "shape": list(values.shape),
            "data_offsets": [begin, end],
        }
        begin = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % LENGTH)  # numbers start where a number of 8 bytes may
    with whole_file(path, binary=True) as file:
        file.write(len(text).to_bytes(LENGTH, "little") + text)
        for values in tensors.values():  # one by one: together they may fill the memory
            flat = values.detach().cpu().contiguous().flatten()
            file.write(flat.view(torch.uint8).numpy())


def _content(path: str | Path) -> mmap.mmap:
    try:
        with Path(path).open("rb") as file:
            # Copied when written to: PyTorch has no tensors that cannot be written to.
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError) as error:  # ValueError: an empty file
        reason = getattr(error, "strerror", None) or "is empty"
        raise InputError(f"{path}: {reason}; {EXPECTED}") from None


def _refuse(path: str | Path, found: str) -> NoReturn:
    raise InputError(f"{path}: {found}; {EXPECTED}")


def _header(path: str | Path, content: mmap.mmap) -> tuple[dict[str, Any], int]:
    """What the header says of each tensor, and where the numbers start."""
    length = int.from_bytes(content[:LENGTH], "little")
    start = LENGTH + length
    if len(content) < LENGTH or length > LONGEST_HEADER or start > len(content):
        _refuse(path, f"its header would have {length} bytes, and the file has {len(content)}")
    try:
        header = parse_json(content[LENGTH:start].decode("utf-8"))
    except ValueError:
        _refuse(path, "its header is damaged")
    if not isinstance(header, dict):
        _refuse(path, "its header is damaged")
    return header, start


def _offsets(path: str | Path, name: str, entry: Any) -> tuple[int, int]:
    """Where a tensor begins and ends, in bytes behind the header."""
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not _are_sizes(offsets) or len(offsets) != 2:
        _refuse(path, f"{name!r} has the offsets {offsets!r}")
    return offsets[0], offsets[1]


def _described(
    path: str | Path, name: str, entry: dict
) -> tuple[torch.dtype, list[int], tuple[int, int]]:
    """Kind of numbers, shape and place of a tensor, which fit each other."""
    kind, shape = entry.get("dtype"), entry.get("shape")
    if not _is_text(kind) or kind not in DTYPES:
        kinds = ", ".join(DTYPES)
        raise InputError(f"{path}: {name!r} has numbers of the kind {kind!r}; expected {kinds}")
    begin, end = _offsets(path, name, entry)
    if not _are_sizes(shape) or math.prod(shape) * DTYPES[kind].itemsize != end - begin:
        _refuse(path, f"{name!r} of the shape {shape!r} has {end - begin} bytes of {kind}")
    if math.prod(size for size in shape if size) > MOST_NUMBERS:  # of a tensor that has none
        _refuse(path, f"{name!r} has the shape {shape!r}")
    return DTYPES[kind], shape, (begin, end)


def _are_sizes(numbers: Any) -> TypeGuard[list[int]]:
    if not isinstance(numbers, list):
        return False
    return all(type(number) is int and number >= 0 for number in numbers)


def _tensor(content: mmap.mmap, offset: int, dtype: torch.dtype, shape: list[int]) -> Tensor:
    count = math.prod(shape)
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(content, dtype=dtype, count=count, offset=offset).reshape(shape)
