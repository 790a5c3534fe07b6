"""Sums as bytes and back, exactly, without pickle.

A line of JSON says how things are nested; behind it are the contents of all arrays. Bytes can make
nothing but plain data, and objects of those classes that the reader names.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from fairseq_normalign.errors import InputError

PLAIN = (type(None), bool, int, float, str)
# What bytes that were changed can raise on their way to values.
DAMAGE = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError),
    *(RecursionError, OverflowError, MemoryError),
)
SEQUENCES = {"list": list, "tuple": tuple}


def pack(state: Any, classes: Iterable[type] = ()) -> bytes:
    """The bytes of numbers, text, arrays, random generators, collections and objects.

    Args:
        classes: those of the objects: classes with a ``__dict__``, or named tuples.
    """
    packer = _Packer(classes)
    tree = packer.tree(state)
    header = {"tree": tree, "arrays": packer.descriptions}
    return b"".join([json.dumps(header).encode(), b"\n", *packer.contents])


def unpack(contents: bytes, classes: Iterable[type] = ()) -> Any:
    """What was packed; refuses what is no such thing, and classes that are not named."""
    try:
        line, _, rest = contents.partition(b"\n")
        header = json.loads(line)
        arrays = _arrays(header["arrays"], rest)
        return _Unpacker(classes, arrays).value(header["tree"])
    except DAMAGE:
        raise InputError("is damaged; expected sums that a run has kept") from None


class _Packer:
    """Turns values into JSON, and gathers arrays by their numbers."""

    def __init__(self, classes: Iterable[type]):
        self.classes = set(classes)
        self.descriptions: list[tuple[str, tuple[int, ...]]] = []  # type and shape of each array
        self.contents: list[bytes] = []

    def tree(self, value: Any) -> Any:
        """Plain values as they are, all others as a list that begins with what they are."""
        kind = type(value)
        if kind in PLAIN:
            return value
        if kind in self.classes:
            return ["object", kind.__name__, self._items(_fields(value))]
        if kind in (list, tuple):
            return [kind.__name__, [self.tree(item) for item in value]]
        if kind in (dict, Counter):
            return [kind.__name__, self._items(value)]
        if kind is defaultdict:
            return ["defaultdict", value.default_factory.__name__, self._items(value)]
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return ["array", self._number(value)]
        if isinstance(value, np.generic):
            return ["scalar", self._number(np.asarray(value))]
        if isinstance(value, np.random.Generator):
            return ["generator", self.tree(value.bit_generator.state)]
        raise TypeError(f"{kind.__name__}: cannot be kept; expected a class that is named")

    def _items(self, items: dict) -> list:
        return [[self.tree(key), self.tree(value)] for key, value in items.items()]

    def _number(self, array: np.ndarray) -> int:
        self.descriptions.append((array.dtype.str, array.shape))
        self.contents.append(array.tobytes())
        return len(self.contents) - 1


def _fields(value: Any) -> dict[str, Any]:
    return value._asdict() if hasattr(value, "_asdict") else vars(value)


def _arrays(descriptions: list, contents: bytes) -> list[np.ndarray]:
    arrays = []
    begin = 0
    for name, shape in descriptions:
        dtype = np.dtype(name)
        end = begin + math.prod(shape) * dtype.itemsize
        array = np.frombuffer(memoryview(contents)[begin:end], dtype)
        arrays.append(array.reshape(shape).copy())
        begin = end
    if begin != len(contents):
        raise ValueError("more or fewer bytes than the arrays have")
    return arrays


class _Unpacker:
    """Turns JSON and arrays into values."""

    def __init__(self, classes: Iterable[type], arrays: list[np.ndarray]):
        self.classes = {kind.__name__: kind for kind in classes}
        self.arrays = arrays

    def value(self, tree: Any) -> Any:
        if not isinstance(tree, list):
            return tree
        kind, *rest = tree
        if kind in SEQUENCES:
            return SEQUENCES[kind](self.value(item) for item in rest[0])
        if kind == "dict":
            return self._items(rest[0])
        if kind == "Counter":
            return Counter(self._items(rest[0]))
        if kind == "defaultdict":
            return defaultdict(self._factory(rest[0]), self._items(rest[1]))
        if kind == "object":
            return self._object(self.classes[rest[0]], self._items(rest[1]))
        if kind == "generator":
            return _generator(self.value(rest[0]))
        array = self.arrays[rest[0]]
        return {"array": array, "scalar": array[()]}[kind]

    def _items(self, items: list) -> dict:
        return {self.value(key): self.value(value) for key, value in items}

    def _factory(self, name: str) -> type:
        return int if name == "int" else self.classes[name]

    def _object(self, kind: type, fields: dict[str, Any]) -> Any:
        if issubclass(kind, tuple):
            return kind(**fields)
        made = kind.__new__(kind)
        vars(made).update(fields)
        return made


def _generator(state: dict[str, Any]) -> np.random.Generator:
    generator = np.random.default_rng()
    generator.bit_generator.state = state
    return generator
