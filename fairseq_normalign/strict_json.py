"""JSON and numbers that every program reads alike.

Python's own reader of JSON also takes NaN and Infinity, makes 1e999 infinite, has whole numbers
that no other program holds, and of a name that comes twice takes the last value. Its ``float`` also
reads ``nan``, ``1_000`` and digits of other scripts, and takes blanks of any kind around them for
nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

from fairseq_normalign.errors import InputError

SHOWN = 40  # letters or digits of what is refused


def parse_json(text: str, *, constants: bool = False) -> Any:
    """The value of a JSON text; raises ValueError if there is none, or more than one reading.

    Args:
        constants: NaN and Infinity are read as Python writes them, for files that it wrote.
    """
    try:
        return json.loads(
            text,
            parse_constant=float if constants else _refuse_constant,
            parse_float=_finite,
            parse_int=_whole,
            object_pairs_hook=_each_once,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:SHOWN]} is too large")
    return value


def _whole(digits: str) -> int:
    """A whole number that a float could hold as well, if not to the last digit."""
    value = int(digits)
    _finite(digits)
    return value


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = Counter(name for name, _ in pairs)
        ((twice, _),) = names.most_common(1)
        raise ValueError(f"a name comes twice: {twice[:SHOWN]!r}")
    return entries


def read_json(path: Path, expected: str) -> dict[str, Any]:
    """A JSON object, no name of which comes twice.

    NaN and Infinity are read, which transformers wrote for years: whoever needs a number looks.

    Args:
        expected: what the file should be, in words.
    """
    try:
        value = parse_json(path.read_text(encoding="utf-8"), constants=True)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; {expected}") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise InputError(f"{path}: not JSON; {expected}") from None
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error}); {expected}") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: is no JSON object; {expected}")
    return value


# So few digits that no number is too large to be finite.
PATTERN = (
    r"(?:[0-9]{1,60}(?:\.[0-9]{0,60})?|\.[0-9]{1,60})"
    r"(?:[eE](?:\+?[0-9]{1,2}|-[0-9]{1,3}))?"
)
DECIMAL = re.compile(PATTERN)


def decimal(text: str) -> float:
    """A finite number that is not negative, such as 2, 0.5 or 1e-3; raises ValueError."""
    if DECIMAL.fullmatch(text) is None:
        raise ValueError(f"{text[:40]!r} is no number")
    return float(text)
