"""Gives every parser, and the command line, what nobody would.

``python -m tests.fuzz --minutes 10`` prints a line for each target with the number of inputs that
it was given, and how many of them it took. It ends with 1 at a defect, and shows the input.
``tests/test_fuzz.py`` runs a little of the same.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings

from fairseq_normalign.errors import InputError
from tests import damage, fuzz_targets
from tests.fuzz_commands import Commands

HANGS = 600  # seconds that no input needs, also on a machine that has much to do
ROUND = 400  # inputs that a target is given in its turn


class Defect(AssertionError):
    """What a parser should not have done with an input."""


class Count:
    def __init__(self) -> None:
        self.given, self.taken = 0, 0


class Check(NamedTuple):
    """A target as all others: a strategy of inputs, and what must hold for each."""

    name: str
    strategy: Any
    holds: Callable[[Any], bool]  # whether the input was taken; raises Defect
    cost: int = 1  # its turns are as many times shorter


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    def interrupt(number: int, frame: object) -> None:
        raise Defect(f"no end after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def result_of(read: Callable[[Any], Any], given: Any) -> tuple[bool, Any]:
    """Whether it was taken, and what was read; one line says why not."""
    try:
        with time_limit(HANGS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return True, read(given)
    except InputError as error:
        if not str(error).strip():
            raise Defect("an error without a word") from error
        return False, None
    except Defect:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:  # the command says so
            return False, None
        raise Defect(f"{type(error).__name__}: {str(error)[:200]}") from error


def file_check(target: fuzz_targets.Target, cost: int = 1) -> Check:
    def holds(content: bytes) -> bool:
        with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
            path = Path(folder) / target.file
            path.write_bytes(content)
            return result_of(target.read, path)[0]

    return Check(target.name, damage.files(target.wholes), holds, cost)


def word_check(spec: fuzz_targets.Spec) -> Check:
    def holds(word: str) -> bool:
        return result_of(spec.read, word)[0]

    return Check(f"word: {spec.name}", damage.words(spec.wholes), holds)


def light_checks() -> list[Check]:
    return [*map(file_check, fuzz_targets.LIGHT), *map(word_check, fuzz_targets.SPECS)]


def heavy_checks() -> list[Check]:
    return [file_check(target, cost=100) for target in fuzz_targets.heavy()]


def command_checks(commands: Commands) -> list[Check]:
    return [
        Check(f"normalign {name}", commands.lines(name), commands.run, cost=50)
        for name in commands.names
    ]


def run(check: Check, examples: int, *, number: int | None = None) -> Count:
    """Gives a target some inputs, chosen by a seed; without one, always the same."""
    count = Count()

    def holds(given: Any) -> None:
        count.given += 1
        count.taken += check.holds(given)

    test = given(check.strategy)(holds)
    test = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=number is None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
    )(test)
    if number is not None:
        test = seed(number)(test)
    test()
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="targets with this in their name"
    )
    args = parser.parse_args()
    end = time.monotonic() + 60 * args.minutes
    with Commands() as commands:
        checks = [*light_checks(), *heavy_checks(), *command_checks(commands)]
        checks = [check for check in checks if args.only in check.name]
        counts = {check.name: Count() for check in checks}
        defects: dict[str, str] = {}
        number = args.seed
        while time.monotonic() < end and len(defects) < len(checks):
            for check in checks:
                if check.name in defects or time.monotonic() > end:
                    continue
                try:
                    count = run(check, max(1, ROUND // check.cost), number=number)
                except BaseException as error:
                    if isinstance(error, KeyboardInterrupt):
                        raise
                    defects[check.name] = described(error)
                    print(
                        f"DEFECT {check.name}\n{defects[check.name]}", file=sys.stderr, flush=True
                    )
                    continue
                counts[check.name].given += count.given
                counts[check.name].taken += count.taken
            number += 1
    for check in checks:
        count = counts[check.name]
        verdict = "DEFECT" if check.name in defects else "sound"
        print(f"{check.name:<32} {count.given:>8} inputs {count.taken:>8} taken  {verdict}")
    return 1 if defects else 0


def described(error: BaseException) -> str:
    """The defect, and Hypothesis's note of the input that shows it."""
    lines = traceback.format_exception(error)
    notes = getattr(error, "__notes__", [])
    return "".join(lines)[-3000:] + "\n".join(notes)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
