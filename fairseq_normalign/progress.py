"""How far a long run is: a bar on a terminal, a line now and then elsewhere, nothing if quiet.

All goes to stderr. Whatever takes longer than a few seconds asks here for its bar.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

EVERY = 30.0  # seconds between two lines where there is no terminal
DELAY = 1.0  # seconds that a run goes on before a bar is drawn: short ones need none

Item = TypeVar("Item")

_quiet = ContextVar("quiet", default=False)


class Log:
    """A file where each state of a bar is a line of its own."""

    def write(self, text: str) -> None:
        if line := text.strip():
            print(line, file=sys.stderr, flush=True)

    def flush(self) -> None:
        pass


@contextmanager
def bar(title: str = "", *, total: int | None = None, unit: str = "pairs") -> Iterator[Any]:
    """A bar of tqdm for a run of ``total`` steps, with the time that is left if that is known."""
    from tqdm import tqdm

    if sys.stderr.isatty():
        shape: dict[str, Any] = {"dynamic_ncols": True, "delay": DELAY}
    else:
        every = {"mininterval": EVERY, "maxinterval": EVERY, "delay": EVERY}
        shape = {"file": Log(), "ncols": 0, "miniters": 1, **every}
    about = {"desc": title or None, "total": total, "unit": f" {unit}"}
    with tqdm(disable=is_quiet(), **about, **shape) as shown:
        yield shown


def over(items: Collection[Item], title: str = "", *, unit: str = "pairs") -> Iterator[Item]:
    """The items one by one, and a bar that tells how many are done."""
    with bar(title, total=len(items), unit=unit) as shown:
        for item in items:
            yield item
            shown.update()


@contextmanager
def quiet(silent: bool = True) -> Iterator[None]:
    """Within it, nothing is shown; ``quiet(False)`` changes nothing."""
    token = _quiet.set(silent or is_quiet())
    try:
        yield
    finally:
        _quiet.reset(token)


def is_quiet() -> bool:
    """Whether progress and warnings stay off the screen."""
    return _quiet.get()
