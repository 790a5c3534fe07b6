"""Pairs of the data that ``fairseq-preprocess`` writes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import product

from fairseq import utils
from fairseq.data import Dictionary
from fairseq.data.data_utils import load_indexed_dataset

from fairseq_normalign.errors import InputError, MissingSubset
from fairseq_normalign.host.pairs import Pair, PairReader
from fairseq_normalign.host.special_tokens import task_options


def binarised_pairs(subset: str, reader: PairReader) -> tuple[Iterator[Pair], int]:
    """Pairs of a ``fairseq-preprocess``ed subset, in the order of the text, and how many there are.

    Read from the files rather than with ``task.load_dataset``, which shuffles, mixes or cuts in
    some tasks.
    """
    options = task_options(reader.task)
    if getattr(options, "source_lang", None) is None:
        return _binarised_sources(subset, options.data, reader)
    languages = options.source_lang, options.target_lang
    dictionaries = reader.task.source_dictionary, reader.task.target_dictionary
    for folder, (first, second) in product(
        utils.split_paths(options.data or ""), (languages, languages[::-1])
    ):
        prefix = f"{folder}/{subset}.{first}-{second}."
        sides = [
            _indexed(prefix + lang, symbols)
            for lang, symbols in zip(languages, dictionaries, strict=True)
        ]
        if None not in sides:
            break
    else:
        raise MissingSubset(
            f"no subset {subset!r} of {'-'.join(languages)} in {options.data}; expected "
            "fairseq-preprocess's"
        )
    source, target = sides
    if reader.scheme == "none" and any(
        "▁" in symbol or symbol.endswith("@@") for symbol in dictionaries[0].symbols
    ):
        warnings.warn(
            "links are links of pieces; for links of words, name the BPE with --remove-bpe",
            stacklevel=2,
        )
    if len(source) != len(target):
        raise InputError(
            f"{prefix}*: {len(source)} sources and {len(target)} targets; expected as many of each"
        )
    pairs = (
        reader.binarised_pair(source[i], target[i], f"pair {i + 1}") for i in range(len(source))
    )
    return pairs, len(source)


def _binarised_sources(subset: str, data: str, reader: PairReader) -> tuple[Iterator[Pair], int]:
    """Sentences without targets, as ``fairseq-preprocess --only-source`` writes them for masked
    language models."""
    for folder in utils.split_paths(data):
        source = _indexed(f"{folder}/{subset}", reader.task.source_dictionary)
        if source is not None:
            pairs = (
                reader.binarised_pair(source[i], None, f"sentence {i + 1}")
                for i in range(len(source))
            )
            return pairs, len(source)
    raise MissingSubset(
        f"no subset {subset!r} in {data}; expected fairseq-preprocess's with --only-source"
    )


def _indexed(path: str, dictionary: Dictionary):
    """One side of a subset, or None; fairseq's older format must be told to read its sentences."""
    dataset = load_indexed_dataset(path, dictionary)
    if dataset is not None and getattr(dataset, "supports_prefetch", False):
        dataset.prefetch(range(len(dataset)))
    return dataset
