"""How far a long run is: a bar on a terminal, a line now and then elsewhere, nothing if quiet.

All goes to stderr. Whatever takes longer than a few seconds asks here for its bar.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Protocol, TypeVar

EVERY = 30.0  # seconds between two lines where there is no terminal
DELAY = 1.0  # seconds that a run goes on before a bar is drawn: short ones need none

Item = TypeVar("Item")

_quiet = ContextVar("quiet", default=False)


class Pulse:
    """When the last line came.

    The bars of one command share it, so that many short runs are not silent together.

    Args:
        clock: tells the seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self.clock = clock
        self.told = clock()


_pulse: ContextVar[Pulse | None] = ContextVar("pulse", default=None)


class Bar(Protocol):
    """What a run tells of itself."""

    def update(self, done: int = 1) -> object:
        """So many more are done."""

    def set_postfix_str(self, note: str, refresh: bool = True) -> object:
        """A note that stands behind the numbers."""


@contextmanager
def bar(title: str = "", *, total: int | None = None, unit: str = "pairs") -> Iterator[Bar]:
    """A bar for a run of ``total`` steps, with the time that is left if the total is known."""
    if is_quiet():
        yield Nothing()
    elif sys.stderr.isatty():
        from tqdm import tqdm

        with tqdm(
            desc=title or None, total=total, unit=f" {unit}", dynamic_ncols=True, delay=DELAY
        ) as shown:
            yield shown
    else:
        lines = Lines(title, total=total, unit=unit, pulse=_pulse.get())
        yield lines
        lines.close()


def over(items: Collection[Item], title: str = "", *, unit: str = "pairs") -> Iterator[Item]:
    """The items one by one, and a bar that tells how many are done."""
    with bar(title, total=len(items), unit=unit) as shown:
        for item in items:
            yield item
            shown.update()


def quiet(silent: bool = True) -> AbstractContextManager[None]:
    """Within it, nothing is shown; ``quiet(False)`` changes nothing."""
    return _within(_quiet, silent or is_quiet())


def one_pulse() -> AbstractContextManager[None]:
    """Within it, lines come every half minute, whichever bar they are of."""
    return _within(_pulse, Pulse())


@contextmanager
def _within(variable: ContextVar, value: object) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def is_quiet() -> bool:
    """Whether progress and warnings stay off the screen."""
    return _quiet.get()


class Nothing:
    """A bar that shows nothing."""

    def update(self, done: int = 1) -> None:
        pass

    def set_postfix_str(self, note: str, refresh: bool = True) -> None:
        pass


class Lines:
    """A line on stderr every half minute; none of a run that is shorter."""

    def __init__(self, title: str, *, total: int | None, unit: str, pulse: Pulse | None = None):
        self.title, self.total, self.unit = title, total, unit
        self.pulse = pulse or Pulse()
        self.done = 0
        self.note = ""
        self.began = self.pulse.clock()
        self.has_told = False

    def update(self, done: int = 1) -> None:
        self.done += done
        if self.pulse.clock() - self.pulse.told >= EVERY:
            self._tell()

    def set_postfix_str(self, note: str, refresh: bool = True) -> None:
        self.note = note

    def close(self) -> None:
        """The last line, of a run that has shown one before."""
        if self.has_told:
            self._tell()

    def _tell(self) -> None:
        self.has_told = True
        self.pulse.told = self.pulse.clock()
        print(self.line(), file=sys.stderr, flush=True)

    def line(self) -> str:
        """``relevance: 120 of 500 pairs, 24 %, 0:01:02 so far, 0:03:16 left``."""
        spent = self.pulse.clock() - self.began
        of_total = "" if self.total is None else f" of {self.total}"
        parts = [f"{self.done}{of_total} {self.unit}"]
        if self.total:
            parts.append(f"{100 * self.done / self.total:.0f} %")
        parts.append(f"{timedelta(seconds=round(spent))} so far")
        if self.total and 0 < self.done < self.total:
            left = spent / self.done * (self.total - self.done)
            parts.append(f"{timedelta(seconds=round(left))} left")
        if self.note:
            parts.append(self.note)
        text = ", ".join(parts)
        return f"{self.title}: {text}" if self.title else text
