"""Writes arrays of a corpus to one ``.npz`` file, one sentence at a time.

``results.export`` reads it, and says what is in it.
"""

from __future__ import annotations

import contextlib
import json
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairseq_normalign.files import whole_file

METADATA = "metadata.json"

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
