"""Whether the two files that fairseq keeps sentences in, ``.idx`` and ``.bin``, belong together.

Looked at before fairseq opens them: it reads beyond the end of a file that was cut off, and where
it does notice, it says so with an assertion.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fairseq_normalign.errors import InputError

MAPPED = b"MMIDIDX\x00\x00"  # fairseq's format since 0.9, read by mapping it into memory
CACHED = b"TNTIDX\x00\x00"  # the older one
HUFFMAN = b"HUFFIDX\x00\x00"
# Bytes of a token by the code of its type; the types of real numbers are left out.
TOKEN_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 8: 2, 9: 4, 10: 8}


class Index(NamedTuple):
    """Where sentences are in a ``.bin``, in bytes."""

    starts: np.ndarray
    ends: np.ndarray


def check_index(path: str) -> int:
    """Refuses ``path.idx`` and ``path.bin`` that are damaged or not fairseq's.

    Returns:
        how many sentences there are.
    """
    name = f"{path}.idx"
    content = Path(name).read_bytes()
    if content.startswith(HUFFMAN):  # fairseq's reader needs a bitarray of 2022, and looks at less
        raise InputError(
            f"{name}: is in the Huffman format, which is not read here; expected one by "
            "fairseq-preprocess --dataset-impl mmap"
        )
    try:
        index = _parse(content)
    except (struct.error, ValueError) as error:
        raise InputError(f"{name}: {error}; expected an index by fairseq-preprocess") from None
    size = Path(f"{path}.bin").stat().st_size
    outside = (index.starts < 0) | (index.ends < index.starts) | (index.ends > size)
    if outside.any():
        number = int(outside.argmax())
        raise InputError(
            f"{path}.bin: {size} bytes, but sentence {number + 1} of {len(outside)} is to be found "
            f"at {index.starts[number]} to {index.ends[number]}; is the file cut off, or not that "
            f"of {name}?"
        )
    return len(outside)


def _parse(content: bytes) -> Index:
    if content.startswith(MAPPED):
        return _parse_mapped(content)
    if content.startswith(CACHED):
        return _parse_cached(content)
    raise ValueError(f"begins with {content[:8]!r}")


def _parse_mapped(content: bytes) -> Index:
    """Magic, version, type of tokens, number of sentences; their sizes and starts."""
    version, code, count = struct.unpack_from("<QBQ", content, len(MAPPED))
    begin = len(MAPPED) + struct.calcsize("<QBQ")
    token_bytes = _token_bytes(version, code)
    _check_size(content, begin + 12 * count)
    sizes = np.frombuffer(content, np.int32, count, begin)
    starts = np.frombuffer(content, np.int64, count, begin + 4 * count)
    return Index(starts, starts + sizes.astype(np.int64) * token_bytes)


def _parse_cached(content: bytes) -> Index:
    """Magic, version, type and bytes of tokens, number of sentences and of sizes; then these."""
    header = struct.unpack_from("<QQQQQ", content, len(CACHED))
    version, code, token_bytes, count, sizes = header
    begin = len(CACHED) + struct.calcsize("<QQQQQ")
    _token_bytes(version, code)
    _check_size(content, begin + 8 * (2 * (count + 1) + sizes))
    places = np.frombuffer(content, np.int64, count + 1, begin)
    offsets = np.frombuffer(content, np.int64, count + 1, begin + 8 * (count + 1))
    lengths = np.frombuffer(content, np.int64, sizes, begin + 16 * (count + 1))
    # A sentence is a row of tokens: it has one size, which is that of its place in the file.
    is_sound = sizes == count and (places == np.arange(count + 1)).all()
    if not is_sound or not (np.diff(offsets) == lengths).all():
        raise ValueError("sizes that are not those of its sentences")
    if token_bytes != TOKEN_BYTES[code]:
        raise ValueError(f"tokens of type {code} with {token_bytes} bytes")
    bounds = offsets * token_bytes
    return Index(bounds[:-1], bounds[1:])


def _token_bytes(version: int, code: int) -> int:
    if version != 1:
        raise ValueError(f"version {version}")
    if code not in TOKEN_BYTES:
        raise ValueError(f"tokens of type {code}, which are no whole numbers")
    return TOKEN_BYTES[code]


def _check_size(content: bytes, size: int) -> None:
    if len(content) != size:
        raise ValueError(f"{len(content)} bytes instead of {size}")
