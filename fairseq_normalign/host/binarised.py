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


def binarised_pairs(subset: str, reader: PairReader) -> tuple[Iterator[Pair], int]:
    """Pairs of a ``fairseq-preprocess``ed subset, in the order of the text, and how many there are.

    Read from the files rather than with ``task.load_dataset``, which shuffles, mixes or cuts in
    some tasks.
    """
    sides = binarised_sides(subset, reader)
    say_if_unjoined(reader)
    return _counting_unknown(_pairs(sides, reader), reader, sides.names), len(sides.source)


class Sides(NamedTuple):
    """Both sides of a subset, as many sentences of each; masked language models have no target."""

    source: Sequence[Any]
    target: Sequence[Any] | None
    names: Sequence[str]  # of their files, without ending


def binarised_sides(subset: str, reader: PairReader) -> Sides:
    """The tokens of a subset."""
    options = task_options(reader.task)
    if getattr(options, "source_lang", None) is None:
        return _without_targets(subset, options.data, reader)
    languages = (options.source_lang, options.target_lang)
    prefix = _prefix(subset, options.data, languages)
    source = _sentences(prefix + languages[0], reader.task.source_dictionary)
    target = _sentences(prefix + languages[1], reader.task.target_dictionary)
    if len(source) != len(target):
        raise InputError(
            f"{prefix}*: {len(source)} sources and {len(target)} targets; expected as many of each"
        )
    return Sides(source, target, [prefix + language for language in languages])


def _without_targets(subset: str, data: str, reader: PairReader) -> Sides:
    """Sentences as ``fairseq-preprocess --only-source`` writes them."""
    for folder in utils.split_paths(data or ""):
        path = f"{folder}/{subset}"
        if not _missing(path):
            return Sides(_sentences(path, reader.task.source_dictionary), None, [path])
    raise MissingSubset(
        f"no subset {subset!r} in {data}; expected fairseq-preprocess's with --only-source"
    )


def _pairs(sides: Sides, reader: PairReader) -> Iterator[Pair]:
    for index in range(len(sides.source)):
        if sides.target is None:
            yield reader.binarised_pair(sides.source[index], None, f"sentence {index + 1}")
        else:
            source, target = sides.source[index], sides.target[index]
            yield reader.binarised_pair(source, target, f"pair {index + 1}")


def _prefix(subset: str, data: str | None, languages: tuple[str, str]) -> str:
    """The path of a subset's files up to the language."""
    incomplete: list[str] = []
    for folder, order in product(utils.split_paths(data or ""), (languages, languages[::-1])):
        prefix = f"{folder}/{subset}.{'-'.join(order)}."
        missing = [_missing(prefix + language) for language in languages]
        if not any(missing):
            return prefix
        if len(missing[0] + missing[1]) < 4:
            incomplete = missing[0] + missing[1]
    name = f"subset {subset!r} of {'-'.join(languages)} in {data}"
    if incomplete:
        raise MissingSubset(f"{name}: there is no {' and no '.join(incomplete)}")
    raise MissingSubset(f"no {name}; expected fairseq-preprocess's")


def _missing(path: str) -> list[str]:
    """Which of the files of one side of a subset are missing.

    fairseq also knows one file of text, without an ending.
    """
    if Path(path).is_file():
        return []
    return [name for name in (f"{path}.idx", f"{path}.bin") if not Path(name).is_file()]


def _sentences(path: str, dictionary: Dictionary) -> Sequence[Any]:
    """One side of a subset; fairseq's older format must be told to read its sentences."""
    if not Path(path).is_file() and check_index(path) == 0:
        return []  # fairseq cannot map an empty file
    try:
        dataset = load_indexed_dataset(path, dictionary)
    except (AssertionError, OSError, ValueError) as error:
        raise InputError(f"{path}: {error}; expected fairseq-preprocess's") from None
    if getattr(dataset, "supports_prefetch", False):
        dataset.prefetch(range(len(dataset)))
    return dataset


def say_if_unjoined(reader: PairReader) -> None:
    """Pieces count as words if nobody said how to join them."""
    for side in (reader.source, reader.target):
        diagnosis = unjoined(side.vocabulary, reader.scheme)
        if diagnosis is not None:
            reader.warn_once(reader.wording.advice(diagnosis), "join")


def _counting_unknown(
    pairs: Iterator[Pair], reader: PairReader, names: Sequence[str]
) -> Iterator[Pair]:
    """The pairs; then a word about pieces that are <unk>, if pieces are joined to words."""
    counts = UnknownPieces(reader)
    for pair in pairs:
        counts.add(pair)
        yield pair
    counts.tell(names)


class UnknownPieces:
    """How many pieces of binarised text are <unk>, which does not tell where words begin."""

    def __init__(self, reader: PairReader):
        self.reader = reader
        self.unknown = [0, 0]  # of source and target
        self.pieces = [0, 0]

    def add(self, pair: Pair) -> None:
        for number, side in enumerate((self.reader.source, self.reader.target)):
            sentence = getattr(pair, side.name)
            self.unknown[number] += int((sentence.tokens == side.dictionary.unk()).sum())
            self.pieces[number] += sum(word >= 0 for word in sentence.words)

    def add_counts(self, unknown: Sequence[int], pieces: Sequence[int]) -> None:
        """What was counted elsewhere."""
        for number in range(2):
            self.unknown[number] += unknown[number]
            self.pieces[number] += pieces[number]

    def tell(self, names: Sequence[str]) -> None:
        """A word about each file, if its pieces are joined to words."""
        for name, count, total in zip(names, self.unknown, self.pieces, strict=False):
            if count and self.reader.scheme != "none":
                self.reader.warn_once(
                    f"{name}: {count} of {total} pieces ({count / total:.1%}) are <unk>, which "
                    "does not tell where words begin: they may be joined wrongly there, unlike in "
                    "text",
                    name,
                )


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
