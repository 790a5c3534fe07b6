"""Times that can be compared, and the table they are printed in."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch


class Row(NamedTuple):
    """One line of the table."""

    what: str
    ours: float
    reference: float
    unit: str
    ratio: float
    target: str = ""  # the ratio we want, such as ≤ 1.10
    spread: tuple[float, float] | None = None  # quartiles of the ratio over rounds


def interleaved(tasks: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds that each task took in each round, after a first round that does not count.

    Tasks take turns, so that a slow moment of the machine meets all of them. Seconds are the
    processor's: other work on the machine counts for none. Run on one thread, or they add up.
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for number in range(rounds + 1):
        for name, task in tasks.items():
            start = time.process_time()
            task()
            if number:
                seconds[name].append(time.process_time() - start)
    return seconds


def cost(what: str, ours: Sequence[float], reference: Sequence[float], target: str = "") -> Row:
    """How many times the reference's time ours takes."""
    return _timed(what, ours, reference, target, lambda a, b: a / b)


def speedup(what: str, ours: Sequence[float], reference: Sequence[float], target: str = "") -> Row:
    """How many times faster than the reference ours is."""
    return _timed(what, ours, reference, target, lambda a, b: b / a)


def _timed(what, ours, reference, target, ratio: Callable[[float, float], float]) -> Row:
    rounds = [ratio(a, b) for a, b in zip(ours, reference, strict=True)]
    lower, _, upper = statistics.quantiles(rounds, n=4) if len(rounds) > 1 else rounds * 3
    a, b = statistics.median(ours), statistics.median(reference)
    return Row(what, 1000 * a, 1000 * b, "ms", ratio(a, b), target, (lower, upper))


HEADER = """| what | ours | reference | ratio | aim | quartiles |
|---|---:|---:|---:|---:|---:|"""


def format_row(row: Row) -> str:
    """A line of a Markdown table below HEADER."""
    ours, reference = (f"{number:,.1f} {row.unit}" for number in (row.ours, row.reference))
    spread = "" if row.spread is None else "{:.3g}–{:.3g}".format(*row.spread)
    return f"| {row.what} | {ours} | {reference} | {row.ratio:.3g} | {row.target} | {spread} |"


def machine() -> dict[str, object]:
    """What the figures depend on."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def processor() -> str:
    try:
        with Path("/proc/cpuinfo").open() as file:  # platform.processor() is empty on many a Linux
            return next(
                line.split(":")[1].strip() for line in file if line.startswith("model name")
            )
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
