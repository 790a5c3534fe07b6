"""Arrays of a corpus in one ``.npz`` file, read one sentence at a time.

``numpy.load`` reads the file too: ``3.array`` is the array of sentence 3 (from 0),
``3.tokens.json`` and ``metadata.json`` are bytes of JSON.
"""

from __future__ import annotations

import contextlib
import json
import operator
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import DAMAGE, whole_file

METADATA = "metadata.json"

# Text that UTF-8 cannot hold is written as \\udcff, which JSON reads back.
ANY_TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace"}


class Item(NamedTuple):
    """One sentence, or pair of sentences, of an export."""

    array: np.ndarray
    source: list[str]  # the tokens that the encoder read
    target: list[str]  # the tokens that the decoder read, its start mark first


class Export:
    """An export to read: a sequence of :class:`Item`, each read from the file when asked for."""

    def __init__(self, path: str | Path):
        self.path = path
        with self._undamaged("not an export"):
            self._archive = zipfile.ZipFile(path)
            self.metadata = json.loads(self._archive.read(METADATA))
            self._sentences = operator.index(self.metadata["sentences"])

    def __len__(self) -> int:
        return self._sentences

    def __getitem__(self, index: int) -> Item:
        place = operator.index(index)
        if place < 0:
            place += len(self)
        if not 0 <= place < len(self):
            raise IndexError(f"sentence {index} of an export of {len(self)}")
        with self._undamaged(f"sentence {place} is damaged or missing"):
            tokens = json.loads(self._archive.read(tokens_name(place)))
            with self._archive.open(array_name(place)) as file:
                array = np.lib.format.read_array(file, allow_pickle=False)
            return Item(array, _texts(tokens["source"]), _texts(tokens["target"]))

    @contextlib.contextmanager
    def _undamaged(self, found: str) -> Iterator[None]:
        try:
            yield
        except DAMAGE as error:
            if getattr(error, "filename", None) is not None:  # there is no such file
                raise
            raise InputError(
                f"{self.path}: {found}; expected a file that normalign export wrote"
            ) from None

    def __iter__(self) -> Iterator[Item]:
        return (self[index] for index in range(len(self)))

    def __enter__(self) -> Export:
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def close(self) -> None:
        self._archive.close()


def _texts(tokens: Any) -> list[str]:
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise TypeError("no list of tokens")
    return tokens


def open_export(path: str | Path) -> Export:
    """Opens what ``normalign export``, or ``--export-attention`` of fairseq's commands, wrote.

    Examples:
        >>> with open_export("norms.npz") as export:
        ...     item = export[3]
        ...     item.array.shape, item.source, item.target, export.metadata["axes"]
    """
    return Export(path)


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
