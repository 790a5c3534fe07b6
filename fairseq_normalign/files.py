"""Files: texts read line by line, and outputs that appear whole or not at all."""

from __future__ import annotations

import contextlib
import gzip
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from fairseq_normalign.errors import InputError


def name_of(path: str | Path) -> str:
    """What messages call a file: its path, or ``<stdin>``."""
    return "<stdin>" if str(path) == "-" else str(path)


def _open(path: str | Path) -> TextIO:
    if str(path) == "-":
        return open(sys.stdin.fileno(), encoding="utf-8-sig", closefd=False)
    if str(path).endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return Path(path).open(encoding="utf-8-sig")


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a UTF-8 file, one at a time; ``-`` is stdin and ``*.gz`` is unpacked."""
    name = name_of(path)
    try:
        with _open(path) as file:
            yield from file
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 text ({error.reason}); expected a text file") from None
    except (OSError, EOFError) as error:
        raise InputError(f"{name}: {getattr(error, 'strerror', None) or error}") from None


@contextlib.contextmanager
def whole_file(path: str | Path, binary: bool = False) -> Iterator[Any]:
    """A file to write that appears under its name only when complete; an error leaves the old file
    as it was."""
    path = Path(path)
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") if binary else part.open("w", encoding="utf-8") as file:
            yield file
        part.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def refuse_overwriting(output: str | Path, *inputs: str | Path) -> None:
    """Raises InputError if the output is one of the inputs, also under another name."""
    for path in inputs:
        if _same_file(output, path):
            raise InputError(f"{output}: is also read as {path}; expected another file to write")


def _same_file(one: str | Path, other: str | Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)
