"""JSON that every program reads alike.

Python's own reader also takes NaN and Infinity, makes 1e999 infinite, and of a name that comes
twice takes the last value.
"""

from __future__ import annotations

import json
import math
from typing import Any


def parse_json(text: str) -> Any:
    """The value of a JSON text; raises ValueError if there is none, or more than one reading."""
    try:
        return json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=_each_once,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:40]} is too large")
    return value


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("a name comes twice")
    return entries
