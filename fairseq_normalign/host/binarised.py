"""Pairs of the data that ``fairseq-preprocess`` writes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.data.data_utils import load_indexed_dataset

from fairseq_normalign.errors import InputError, MissingSubset
from fairseq_normalign.host.pairs import Pair, PairReader
from fairseq_normalign.host.special_tokens import task_options
from fairseq_normalign.text.text_doctor import unjoined


class Sides(NamedTuple):
    """Both sides of a subset, as many sentences of each; masked language models have no target."""

    source: Sequence[Any]
    target: Sequence[Any] | None
    names: Sequence[str]  # of their files, without ending

    def tokens(self, index: int) -> tuple[Any, Any]:
        """One pair, as lists; a target that is not there is None."""
        target = None if self.target is None else self.target[index].tolist()
        return self.source[index].tolist(), target


def binarised_pairs(subset: str, reader: PairReader) -> Iterator[Pair]:
    """Pairs of a ``fairseq-preprocess``ed subset, in the order of the text."""
    sides = binarised_sides(subset, reader)
    numbers = range(len(sides.source))
    return (reader.binarised_pair(*sides.tokens(n), f"pair {n + 1}") for n in numbers)


def binarised_sides(subset: str, reader: PairReader) -> Sides:
    """The tokens of a subset; warns if its pieces would count as words.

    Read from the files rather than with ``task.load_dataset``, which shuffles, mixes or cuts in
    some tasks.
    """
    for side in (reader.source, reader.target):
        diagnosis = unjoined(side.vocabulary, reader.scheme)
        if diagnosis is not None:
            reader.warn_once(diagnosis.advice, "join")
    options = task_options(reader.task)
    if getattr(options, "source_lang", None) is None:
        path = _only_source(subset, options.data)
        return Sides(_sentences(path, reader.task.source_dictionary), None, [path])
    languages = (options.source_lang, options.target_lang)
    prefix = _prefix(subset, options.data, languages)
    source = _sentences(prefix + languages[0], reader.task.source_dictionary)
    target = _sentences(prefix + languages[1], reader.task.target_dictionary)
    if len(source) != len(target):
        raise InputError(
            f"{prefix}*: {len(source)} sources and {len(target)} targets; expected as many of each"
        )
    return Sides(source, target, [prefix + language for language in languages])


def _only_source(subset: str, data: str) -> str:
    """The path of sentences as ``fairseq-preprocess --only-source`` writes them."""
    for folder in utils.split_paths(data or ""):
        if not _missing(f"{folder}/{subset}"):
            return f"{folder}/{subset}"
    raise MissingSubset(
        f"{data}: no binarised subset {subset!r}; name a text (SOURCE), or data that "
        "fairseq-preprocess --only-source wrote"
    )


def _prefix(subset: str, data: str | None, languages: tuple[str, str]) -> str:
    """The path of a subset's files up to the language."""
    incomplete: list[str] = []
    for folder, order in product(utils.split_paths(data or ""), (languages, languages[::-1])):
        prefix = f"{folder}/{subset}.{'-'.join(order)}."
        missing = [*_missing(prefix + languages[0]), *_missing(prefix + languages[1])]
        if not missing:
            return prefix
        if len(missing) < 4:
            incomplete = missing
    name = f"{data}: no binarised subset {subset!r} of {'-'.join(languages)}"
    if incomplete:
        raise MissingSubset(f"{name}: there is no {' and no '.join(incomplete)}")
    raise MissingSubset(f"{name}; name SOURCE and TARGET, or a folder of fairseq-preprocess")


def _missing(path: str) -> list[str]:
    """Which of the files of one side of a subset are missing.

    fairseq also knows one file of text, without an ending.
    """
    if Path(path).is_file():
        return []
    return [name for name in (f"{path}.idx", f"{path}.bin") if not Path(name).is_file()]


def _sentences(path: str, dictionary: Dictionary) -> Sequence[Any]:
    """One side of a subset; fairseq's older format must be told to read its sentences."""
    if not Path(path).is_file() and _checked_count(path) == 0:
        return []  # fairseq cannot map an empty file
    try:
        dataset = load_indexed_dataset(path, dictionary)
    except (AssertionError, OSError, ValueError) as error:
        raise InputError(f"{path}: {error}; expected fairseq-preprocess's") from None
    if getattr(dataset, "supports_prefetch", False):
        dataset.prefetch(range(len(dataset)))
    return dataset


MAPPED = b"MMIDIDX\x00\x00"  # fairseq's format since 0.9, read by mapping it into memory
CACHED = b"TNTIDX\x00\x00"  # the older one
# Bytes of a token by version and code of its type; types of real numbers are left out.
TOKEN_BYTES = {(1, code): size for code, size in enumerate((1, 1, 2, 4, 8), 1)}
TOKEN_BYTES |= {(1, 8): 2, (1, 9): 4, (1, 10): 8}


def _checked_count(path: str) -> int:
    """How many sentences there are in ``path.idx`` and ``path.bin``, if they are sound.

    fairseq itself would read other memory, or fail when it comes to a sentence.
    """
    try:
        starts, ends = _bounds(Path(f"{path}.idx").read_bytes())
    except (struct.error, KeyError, ValueError, OverflowError):
        raise InputError(
            f"{path}.idx: not an index of fairseq-preprocess --dataset-impl mmap, or a damaged one"
        ) from None
    size = Path(f"{path}.bin").stat().st_size
    outside = (starts < 0) | (ends < starts) | (ends > size)
    if outside.any():
        number = int(outside.argmax())
        raise InputError(
            f"{path}.bin: {size} bytes, but sentence {number + 1} of {len(outside)} is to be found "
            f"at {starts[number]} to {ends[number]}; is the file cut off, or not that of the index?"
        )
    return len(outside)


def _bounds(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Where sentences begin and end in a ``.bin``, in bytes, by an index of either format."""
    if content.startswith(MAPPED):  # version, type of tokens, count; sizes and starts
        header = struct.Struct("<QBQ")
        version, code, count = header.unpack_from(content, len(MAPPED))
        begin = len(MAPPED) + header.size
        sizes = np.frombuffer(content, np.int32, count, begin)
        starts = np.frombuffer(content, np.int64, count, begin + sizes.nbytes)
        return starts, starts + sizes.astype(np.int64) * TOKEN_BYTES[version, code]
    if not content.startswith(CACHED):
        raise ValueError
    # Version, type and bytes of tokens, count of sentences and of sizes; places, offsets, sizes.
    header = struct.Struct("<QQQQQ")
    version, code, token_bytes, count, size_count = header.unpack_from(content, len(CACHED))
    numbers = np.frombuffer(content, np.int64, 3 * count + 2, len(CACHED) + header.size)
    places, offsets, lengths = np.split(numbers, [count + 1, 2 * count + 2])
    # A sentence is a row of tokens: it has one size, which is that of its place in the file.
    is_sound = (places == np.arange(count + 1)).all() and (np.diff(offsets) == lengths).all()
    if not is_sound or (token_bytes, size_count) != (TOKEN_BYTES[version, code], count):
        raise ValueError
    return offsets[:-1] * token_bytes, offsets[1:] * token_bytes
