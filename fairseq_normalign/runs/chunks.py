"""A corpus in pieces of equal size, and what is made of each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np


class Chunk(NamedTuple):
    """Some lines of a corpus as they were read, in whatever form."""

    number: int  # from 0
    first: int  # line, from 0
    items: Sequence[Any]  # strings, numbers, and lists and tuples of these
    measure: str = ""  # the name of what is measured
    place: int = 0  # among the chunks of all measures

    def digest(self) -> str:
        """Tells these lines from others."""
        return digest(self.items)

    @property
    def lines(self) -> str:
        """What messages call it; people count from 1."""
        return f"lines {self.first + 1} to {self.first + len(self.items)}"


class Partial(NamedTuple):
    """What was made of a chunk, or of several: arrays, or text with a line for each item."""

    arrays: Mapping[str, np.ndarray] = {}
    text: str = ""
    notes: Mapping[str, Any] = {}  # what is to be told of it, as JSON holds it


class Shard(NamedTuple):
    """Which chunks one of several runs works on: every ``of``-th, from ``number`` on."""

    number: int = 0
    of: int = 1

    def has(self, chunk: int) -> bool:
        return chunk % self.of == self.number

    def __str__(self) -> str:
        return f"shard {self.number} of {self.of}"


def cut(items: Iterable[Any], size: int, measure: str = "") -> Iterator[Chunk]:
    """The chunks of a corpus, one after the other; the last one may be smaller."""
    rest = iter(items)
    for number in count():
        of_chunk = list(islice(rest, size))
        if not of_chunk:
            return
        yield Chunk(number, number * size, of_chunk, measure)


def digest(contents: Any) -> str:
    """128 bits that tell what JSON can hold from other such things."""
    text = json.dumps(contents, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
