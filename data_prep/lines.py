"""Text files as lists of lines: read strictly, written whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Iterable

from fairseq_normalign.errors import InputError


def read_lines(path: Path, encoding: str = "utf-8") -> list[str]:
    """Lines of a file, ended by newline only: other Unicode line separators stay inside their line."""
    try:
        content = path.read_bytes().decode(encoding)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; expected a text file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not {encoding}; expected {encoding} text") from error
    lines = content.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines in UTF-8 beside the file, then rename."""
    partial = path.with_name(path.name + ".part")
    with partial.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)
    partial.replace(path)
