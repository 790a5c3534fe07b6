"""``normalign merge OUTPUT``: what the shards of an alignment have made, as one file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from fairseq_normalign.alignment.merge import merge_run
from fairseq_normalign.cli.options import CommandParser
from fairseq_normalign.errors import InputError
from fairseq_normalign.locks import locked
from fairseq_normalign.runs.folder import RunFolder

DESCRIPTION = """Join what `normalign align --num-shards N --shard-id K --output OUTPUT` has made of
each shard, in OUTPUT.run, to OUTPUT and its signature. The folder OUTPUT.run goes."""
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
        merge_run(folder)
