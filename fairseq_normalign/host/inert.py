"""Stand-ins that hold values, and run nothing, for what a checkpoint could make run.

NumPy's names in pickles: NumPy's own would corrupt memory. ``np.ndarray((1,), "O", raw)`` makes
Python objects of raw bytes, ``dtype.__setstate__`` sets the offsets of fields, and
``ndarray.__setstate__`` frees numbers that a tensor may still look at. And ``eval``, which fairseq
calls on options.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from fairseq_normalign.errors import InputError

OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
LONGEST = 100_000  # of what a * repeats: enough for any list of layers, too little to fill a memory
SHOWN = 60  # characters of an option in a message
# What an expression raises that is no value, or too large.
NO_VALUE = (
    SyntaxError,
    ValueError,
    TypeError,
    KeyError,
    OverflowError,
    RecursionError,
    MemoryError,
)
NUMERIC = "biufc"  # kinds of dtypes: truth values, integers, floats, complex numbers


class StoredDtype:
    """A dtype by its code, such as ``f8``."""

    def __init__(self, code: str, *flags: Any):
        self.code, self.order = code, "="

    def __setstate__(self, state: tuple) -> None:
        self.order = state[1]

    def numeric(self) -> np.dtype:
        dtype = np.dtype(f"{self.order}{self.code}")
        if dtype.kind not in NUMERIC:
            raise TypeError(f"unsupported class numpy.{dtype.name}")
        return dtype


class StoredArray(np.ndarray):
    """An array of numbers, empty until its state comes. It is stored as an array of NumPy's.

    Pickles call it as ``_reconstruct(ndarray, (0,), b"b")``. Both names are this class.
    """

    def __new__(cls, kind: Any = None, *ignored: Any) -> StoredArray:
        if kind is not StoredArray:
            raise TypeError("unsupported class numpy.ndarray")
        return super().__new__(cls, 0)

    def __setstate__(self, state: tuple) -> None:
        _, shape, dtype, is_fortran, raw = state
        if self.size:
            raise ValueError("an array with two states")
        super().__setstate__((1, shape, StoredDtype.numeric(dtype), is_fortran, raw))

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()


def stored_scalar(dtype: StoredDtype, raw: bytes) -> np.generic:
    return np.frombuffer(raw, StoredDtype.numeric(dtype), 1)[0]


class RefusedOption(InputError):
    """An option that fairseq would run as Python."""


def evaluate(text: Any, *scopes: Any) -> Any:
    """The value of an expression like ``[(512, 3)] * 4 + [(1024, 3)]``.

    Stands in for the ``eval`` of fairseq's modules, which reads options that may come from a
    checkpoint. Names, calls, attributes and all else that could run code are refused.
    """
    if not isinstance(text, str):
        raise TypeError("eval() arg 1 must be a string")  # as of ``eval``: fairseq expects it
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except NO_VALUE:
        raise RefusedOption(
            f"an option is {text[:SHOWN]!r}, which fairseq would run as Python; expected numbers, "
            "strings, lists, tuples or dictionaries"
        ) from None


def _value(node: ast.AST) -> Any:
    """A literal, or what +, - and * make of literals."""
    if not isinstance(node, ast.BinOp):
        return ast.literal_eval(node)
    combine = OPERATORS[type(node.op)]
    left, right = _value(node.left), _value(node.right)
    if combine is operator.mul:
        for sequence, times in ((left, right), (right, left)):
            if hasattr(sequence, "__len__") and len(sequence) * times > LONGEST:
                raise ValueError
    return combine(left, right)
