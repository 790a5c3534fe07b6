"""Functions and classes that are imported when they are first called.

The tables of methods and head scores are read for ``--help``, which must not wait for PyTorch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def imported(place: str) -> Any:
    """The object at ``module:name``, with modules named from this package on."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"{__package__}.{module}"), name)


def late(place: str) -> Callable[..., Any]:
    """A function that imports the one at ``module:name`` when it is called, and calls it."""

    def call(*args: Any, **options: Any) -> Any:
        return imported(place)(*args, **options)

    call.__name__ = place
    return call
