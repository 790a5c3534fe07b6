"""What a command owes the shell.

Streams that are there, ends that leave nothing behind, and messages of one line.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from fairseq_normalign.noise import hide_warnings
from fairseq_normalign.progress import is_quiet

# What the operating system says of a stdout that takes no more: a full or broken disk, a closed
# descriptor.
NO_STDOUT = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}


def prepare_streams() -> None:
    """Puts the null device where the shell has closed a stream (``<&-``, ``>&-``).

    The next file that is opened would take its place, and hold whatever is printed.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115
    if hasattr(sys.stdout, "reconfigure"):  # names of files may be of any bytes
        sys.stdout.reconfigure(errors="backslashreplace")


def end_tidily() -> None:
    """Lets a run that the system ends, by SIGTERM or SIGHUP, remove its temporary files."""
    with contextlib.suppress(ValueError):  # a thread of another program has no signals
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores hangups
                signal.signal(number, lambda number, frame: sys.exit(128 + number))


def print_signature(signature: Mapping[str, object]) -> None:
    """The choices behind a result, beside it: on stderr."""
    from fairseq_normalign.results.result import signature_text

    print(signature_text(signature), file=sys.stderr)


def drop_stdout() -> None:
    """What is still to be printed goes nowhere: Python would fail on it once more at its end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        descriptor = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def say(line: str) -> None:
    """Prints a line to stderr, above a progress bar if there is one."""
    text = " ".join(line.splitlines())
    tqdm = getattr(sys.modules.get("tqdm"), "tqdm", None)  # if it is not imported, it draws no bar
    if tqdm is None:
        print(text, file=sys.stderr)
    else:
        tqdm.write(text, file=sys.stderr)


def note(line: str) -> None:
    """Says a line unless the command is quiet."""
    if not is_quiet():
        say(line)


@contextlib.contextmanager
def warnings_as_lines(command: str) -> Iterator[None]:
    """Shows a warning as one line, once, without the place in the code.

    What is no news to the user stays off the screen: greetings, and how fairseq calls PyTorch.
    """
    shown: set[str] = set()

    def show(message: Warning | str, *place: object, **options: object) -> None:
        text = " ".join(str(message).split())
        if text not in shown and not is_quiet():
            shown.add(text)
            say(f"normalign {command}: warning: {text}")

    level = logging.root.manager.disable
    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=UserWarning)
        hide_warnings()
        warnings.showwarning = show
        logging.disable(logging.INFO)  # fairseq opens the root logger for all debug messages
        try:
            yield
        finally:
            logging.disable(level)
