"""``normalign merge OUTPUT``: what the shards of a command have made, as one file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from fairseq_normalign.cli.options import CommandParser
from fairseq_normalign.cli.runs import Finish
from fairseq_normalign.errors import InputError
from fairseq_normalign.locks import locked
from fairseq_normalign.runs.folder import RunFolder
from fairseq_normalign.runs.measure import made_in

DESCRIPTION = """Join what `normalign align --num-shards N --shard-id K --output OUTPUT`, or another
command with these options, has made of each shard, in OUTPUT.run, to OUTPUT. The folder OUTPUT.run
goes."""
EXAMPLE = "example: normalign merge corpus.pharaoh"


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser("merge", description=DESCRIPTION, epilog=EXAMPLE)
    parser.add_argument("output", metavar="OUTPUT", help="what all shards have as --output")
    parser.add_argument(
        "--from",
        dest="folders",
        nargs="+",
        default=[],
        metavar="FOLDER",
        help="further folders OUTPUT.run, copied from machines that do not share this one's files",
    )
    return parser.parse_args(argv)


def main(args: argparse.Namespace) -> None:
    folder = RunFolder(args.output)
    for path in (folder.path, *map(Path, args.folders)):
        if not path.is_dir():
            raise InputError(f"{path}: no such folder; expected what the shards have made")
    folder.refuse_open()
    with locked(folder.path / "merge"):
        for path in args.folders:
            folder.add(Path(path))
        folder.refuse_running()
        options = argparse.Namespace(**{**folder.options(), "output": args.output})
        finisher(folder, options.command)(options, made_in(folder))
        folder.remove()


def finisher(folder: RunFolder, command: str) -> Finish:
    """What a command does with what its shards have made."""
    from fairseq_normalign.cli import align_run, export, heads, mixing, stats

    finishers: dict[str, Finish] = {
        "align": align_run.finish,
        "export": export.finish,
        "heads": heads.finish,
        "mixing": mixing.finish,
        "stats": stats.finish,
    }
    if command not in finishers:
        raise InputError(f"{folder.path}: is of the command {command}, which has no shards")
    return finishers[command]
