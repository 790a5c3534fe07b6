"""Pairs of the data that ``fairseq-preprocess`` writes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.data.data_utils import load_indexed_dataset

from fairseq_normalign.errors import InputError, MissingSubset
from fairseq_normalign.host.pairs import Pair, PairReader
from fairseq_normalign.host.special_tokens import languages_of, task_options
from fairseq_normalign.text.text_doctor import unjoined


class Subset:
    """The tokens of a subset, a pair of lists for each pair; masked language models have no target.

    Warns if its pieces would count as words. Read from the files rather than with
    ``task.load_dataset``, which shuffles, mixes or cuts in some tasks.
    """

    open_ended = False

    def __init__(self, subset: str, reader: PairReader) -> None:
        for side in (reader.source, reader.target):
            diagnosis = unjoined(side.vocabulary, reader.scheme)
            if diagnosis is not None:
                reader.warn_once(diagnosis.advice, "join")
        paths = _paths(subset, reader.task)
        dictionaries = (reader.task.source_dictionary, reader.task.target_dictionary)
        self.sides = [_sentences(*side) for side in zip(paths, dictionaries, strict=False)]
        self.name = paths[0]
        counts = list(map(len, self.sides))
        if counts[0] != counts[-1]:
            raise InputError(
                f"{paths[0]} has {counts[0]} sentences, {paths[1]} {counts[1]}; expected as many "
                "of each"
            )

    def __len__(self) -> int:
        return len(self.sides[0])

    def __iter__(self) -> Iterator[tuple[list[int], list[int] | None]]:
        for number in range(len(self)):
            source, *target = (side[number].tolist() for side in self.sides)
            yield source, target[0] if target else None


def binarised_pairs(subset: str, reader: PairReader) -> Iterator[Pair]:
    """Pairs of a ``fairseq-preprocess``ed subset, in the order of the text."""
    numbered = enumerate(Subset(subset, reader), 1)
    return (reader.binarised_pair(*sides, f"sentence {number}") for number, sides in numbered)


def _paths(subset: str, task: Any) -> list[str]:
    """The files of both sides, without ending, or of the only one that a task has."""
    source, target = languages_of(task)
    data = task_options(task).data
    names = [[subset]]
    if source is not None and target is not None:
        prefixes = (f"{subset}.{source}-{target}", f"{subset}.{target}-{source}")
        names = [[f"{prefix}.{source}", f"{prefix}.{target}"] for prefix in prefixes]
    for folder, of_sides in product(utils.split_paths(data or ""), names):
        paths = [f"{folder}/{name}" for name in of_sides]
        if all(map(_is_there, paths)):
            return paths
    raise MissingSubset(
        f"{data}: no binarised subset {subset!r}: {' and '.join(names[0])} with .idx and "
        ".bin; name SOURCE and TARGET, or a folder that fairseq-preprocess wrote"
    )


def _is_there(path: str) -> bool:
    """fairseq also knows one file of text, without an ending."""
    return Path(path).is_file() or all(Path(path + end).is_file() for end in (".idx", ".bin"))


def _sentences(path: str, dictionary: Dictionary) -> Sequence[Any]:
    """One side of a subset."""
    if not Path(path).is_file() and _checked_count(path) == 0:
        return []  # fairseq cannot map an empty file
    try:
        return load_indexed_dataset(path, dictionary)
    except (AssertionError, OSError, ValueError) as error:
        raise InputError(f"{path}: {error}; expected fairseq-preprocess's") from None


MAGIC = b"MMIDIDX\x00\x00"  # of fairseq's format since 0.9, which is mapped into memory
HEADER = struct.Struct("<QBQ")  # version, code of the type of tokens, and how many sentences
# Bytes of a token by its code; types of real numbers are left out.
TOKEN_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 8: 2, 9: 4, 10: 8}


def _checked_count(path: str) -> int:
    """How many sentences there are in ``path.idx`` and ``path.bin``, if they are sound.

    fairseq itself would read other memory, or fail when it comes to a sentence.
    """
    index = Path(f"{path}.idx").read_bytes()
    begin = len(MAGIC) + HEADER.size
    try:
        version, code, count = HEADER.unpack_from(index, len(MAGIC))
        lengths = np.frombuffer(index, np.int32, count, begin)  # in tokens
        starts = np.frombuffer(index, np.int64, count, begin + lengths.nbytes)  # in bytes
        ends = starts + lengths.astype(np.int64) * TOKEN_BYTES[code]
        is_index = index.startswith(MAGIC) and version == 1
    except (struct.error, KeyError, ValueError, OverflowError):
        is_index = False
    if not is_index:
        raise InputError(
            f"{path}.idx: not an index of fairseq-preprocess --dataset-impl mmap, or a damaged one"
        )
    size = Path(f"{path}.bin").stat().st_size
    outside = (starts < 0) | (ends < starts) | (ends > size)
    if outside.any():
        raise InputError(
            f"{path}.bin: ends before sentence {int(outside.argmax()) + 1} of {count}; is the file "
            "cut off, or not that of the index?"
        )
    return count
