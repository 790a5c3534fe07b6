"""JSON files of a model's folder, each of which holds an object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairseq_normalign.errors import InputError
from fairseq_normalign.strict_json import parse_json


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
