"""Writes arrays of a corpus to one ``.npz`` file, one sentence at a time.

``results.export`` reads it, and says what is in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import naming, refuse_unwritable, take_name, whole_file

METADATA = "metadata.json"
PART = "arrays.npz"  # an export in the folder of its run

# Text that UTF-8 cannot hold is written as \\udcff, which JSON reads back.
ANY_TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace"}


class Writer:
    """Writes an export; sentences may come in any order."""

    def __init__(self, archive: zipfile.ZipFile):
        self.archive, self.sentences = archive, 0

    def add(
        self, index: int, array: np.ndarray, source: Sequence[str], target: Sequence[str]
    ) -> None:
        with self._member(array_name(index)) as file:
            np.lib.format.write_array(file, array, allow_pickle=False)
        self._write_json(tokens_name(index), {"source": source, "target": target})
        self.sentences += 1

    def finish(self, metadata: dict) -> None:
        """Adds the metadata, and lists the sentences in their order, however they came."""
        self._write_json(METADATA, {**metadata, "sentences": self.sentences})
        self.archive.infolist().sort(key=lambda member: _place(member.filename))

    def _write_json(self, name: str, value: dict) -> None:
        with self._member(name) as file:
            file.write(json.dumps(value, ensure_ascii=False, allow_nan=False).encode(**ANY_TEXT))

    def _member(self, name: str) -> IO[bytes]:
        # A ZipInfo without the time of day: the same export is the same bytes.
        return self.archive.open(zipfile.ZipInfo(name), "w", force_zip64=True)


@contextlib.contextmanager
def create_export(path: str | Path, metadata: dict) -> Iterator[Writer]:
    """An export to write, which appears under its name only when complete."""
    with whole_file(path, binary=True) as file, zipfile.ZipFile(file, "w") as archive:
        writer = Writer(archive)
        yield writer
        writer.finish(metadata)


class GrowingWriter(Writer):
    """Writes an export to a file of its own, which a run that was killed goes on with.

    Args:
        file: open for reading and writing; what is in it is replaced, unless ``written`` is set.
    """

    KEPT = ("written",)

    def __init__(self, file: IO[bytes]):
        self.file, self.sentences = file, 0
        self._archive: zipfile.ZipFile | None = None

    @property
    def archive(self) -> zipfile.ZipFile:  # type: ignore[override]  # made when it is needed
        if self._archive is None:
            self._archive = zipfile.ZipFile(self.file, "w")
        return self._archive

    @property
    def written(self) -> tuple[int, int, np.ndarray]:
        """What was written until now: sentences, bytes, and the directory that goes behind them.

        All of it is on the disk then.
        """
        self.close()
        size = self.archive.start_dir
        self.file.seek(size)
        directory = np.frombuffer(self.file.read(), dtype=np.uint8)
        self._archive = zipfile.ZipFile(self.file, "a")
        return self.sentences, size, directory

    @written.setter
    def written(self, written: tuple[int, int, np.ndarray]) -> None:
        self.sentences, size, directory = written
        if self.file.seek(0, os.SEEK_END) < size:
            raise InputError(f"{self.file.name}: is damaged; expected {size} bytes, or --restart")
        self.file.truncate(size)
        self.file.seek(size)
        self.file.write(directory.tobytes())
        self._archive = zipfile.ZipFile(self.file, "a")

    def close(self) -> None:
        """Writes the directory; whatever else was in the file is cut off."""
        self.archive.close()
        self.file.truncate(self.file.tell())
        self.file.flush()
        os.fsync(self.file.fileno())


@contextlib.contextmanager
def grow_export(path: str | Path, metadata: dict, folder: Path) -> Iterator[GrowingWriter]:
    """An export that is written in a folder, and appears under its name when complete."""
    refuse_unwritable(path)
    part = folder / PART
    if not part.exists():  # a run was killed after it had given the file its name
        for kept in folder.glob("sums-*"):
            kept.unlink()
    part.touch()
    with naming(path), part.open("r+b") as file:
        writer = GrowingWriter(file)
        try:
            yield writer
            writer.finish(metadata)
        finally:
            writer.close()
    take_name(part, path)


def array_name(index: int) -> str:
    """The member that holds the array of a sentence."""
    return f"{index}.array.npy"


def tokens_name(index: int) -> str:
    """The member that holds the tokens of a sentence."""
    return f"{index}.tokens.json"


def _place(name: str) -> tuple[int, str]:
    """Metadata first, then sentence by sentence."""
    if name == METADATA:
        return -1, ""
    number, _, _ = name.partition(".")
    return int(number), name
