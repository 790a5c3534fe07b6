"""Stand-ins for what NumPy names in pickles: they hold numbers, and nothing that a pickle asks for.

NumPy's own would corrupt memory: ``np.ndarray((1,), "O", raw)`` makes Python objects of raw bytes,
``dtype.__setstate__`` sets the offsets of fields, and ``ndarray.__setstate__`` frees numbers that a
tensor may still look at.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
