"""Bad input in fairseq's own commands: one line and exit status 2, as in ours."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from types import TracebackType

from torch.multiprocessing import ProcessRaisedException

from fairseq_normalign.errors import InputError


def report_bad_input() -> None:
    """Changes what an uncaught InputError prints, if this process is a command of fairseq's.

    All other errors, and all other programs, keep their tracebacks.
    """
    if "fairseq_cli" in sys.modules:
        sys.excepthook = partial(_report, sys.excepthook)


def _report(otherwise, kind: type, error: BaseException, traceback: TracebackType | None) -> None:
    message = bad_input(error)
    if message is None:
        otherwise(kind, error, traceback)
        return
    print(f"{Path(sys.argv[0]).name}: {message}", file=sys.stderr)
    sys.exit(2)


def bad_input(error: BaseException) -> str | None:
    """The message of an InputError, raised here or in a process of a parallel training."""
    lines = str(error).strip().splitlines()
    if not isinstance(error, InputError | ProcessRaisedException) or not lines:
        return None
    kinds: list[type[InputError]] = [InputError, *InputError.__subclasses__()]
    for kind in kinds:
        name = f"{kind.__module__}.{kind.__qualname__}: "  # as at the end of a traceback
        if lines[-1].startswith(name):
            return lines[-1].removeprefix(name)
    return lines[-1] if isinstance(error, InputError) else None
