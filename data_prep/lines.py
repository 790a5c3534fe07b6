"""Text files as lines: read strictly and one by one, written whole or not at all."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import whole_file


def text_file(path: Path) -> Path:
    """The file itself or, if there is only that, the packed one: ``train.de.gz``."""
    packed = path.with_name(path.name + ".gz")
    return packed if packed.exists() and not path.exists() else path


def read_lines(path: Path, encoding: str = "utf-8") -> Iterator[str]:
    """Lines of a file, ended by newline only; ``*.gz`` is unpacked.

    Other Unicode line separators stay inside their line.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield _decoded(line, encoding, f"{path}:{number}")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: damaged: {error}; expected a whole gzip file") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; expected a text file") from None


def read_pairs(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """Lines of two files side by side; both must have as many."""
    for number, pair in enumerate(zip_longest(read_lines(source), read_lines(target)), start=1):
        if None in pair:
            short, long = (source, target) if pair[0] is None else (target, source)
            raise InputError(
                f"{short}: {number - 1} lines, but {long} has more; expected as many in both"
            )
        yield pair


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines in UTF-8; the file appears when all are written."""
    with whole_file(path) as file:
        file.writelines(f"{line}\n" for line in lines)


def write_pairs(source: Path, target: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """Write lines in UTF-8; both files appear when all are written."""
    with whole_file(source) as sources, whole_file(target) as targets:
        for ours, theirs in pairs:
            sources.write(f"{ours}\n")
            targets.write(f"{theirs}\n")


def _decoded(line: bytes, encoding: str, where: str) -> str:
    try:
        return line.decode(encoding).rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where}: byte {line[error.start]:#x}; expected {encoding} text"
        ) from None
