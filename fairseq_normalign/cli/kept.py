"""Commands whose sums are kept while they run, so that one that was killed goes on."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fairseq_normalign.cli.runs import command_of, keeps
from fairseq_normalign.errors import InputError

if TYPE_CHECKING:
    from fairseq_normalign.runs.sums import SumsFolder


def add_restart_option(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--restart",
        action="store_true",
        help="begin anew, whatever a killed run has left beside --output; without it, the same "
        "command goes on",
    )


def check_restart(args: argparse.Namespace) -> None:
    """Refuses ``--restart`` where nothing is kept."""
    if args.restart and not keeps(args):
        raise InputError("--restart is about what is kept of --output FILE; expected that with it")


@contextmanager
def kept_sums(args: argparse.Namespace, name: str) -> Iterator[SumsFolder | None]:
    """Where the sums of a command are kept until its output is written; None if nowhere.

    Args:
        args: options that fairseq has not completed yet.
        name: of the command.
    """
    if not keeps(args):
        yield None
        return
    from fairseq_normalign.layers.kept_sums import CLASSES
    from fairseq_normalign.runs.sums import SumsFolder

    command = {"command": name, **command_of(args)}
    with SumsFolder(args.output, command, restart=args.restart, classes=CLASSES) as folder:
        yield folder
