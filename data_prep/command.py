"""What the scripts of this folder have in common on the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from fairseq_normalign.errors import InputError


def described_by(docstring: str) -> argparse.ArgumentParser:
    """A parser whose help is the docstring of a script: its first paragraph, options, the rest."""
    summary, *rest = docstring.split("\n\n")
    return argparse.ArgumentParser(
        description=summary,
        epilog="\n\n".join(rest),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def log(message: str) -> None:
    """Progress, to stderr."""
    print(message, file=sys.stderr, flush=True)


@contextmanager
def errors_in_one_line(script: str) -> Iterator[None]:
    """What the user got wrong is one line, and exit status 2."""
    try:
        yield
    except InputError as error:
        log(f"{script}: {error}")
        sys.exit(2)
