"""``normalign merge OUTPUT``: what the shards of a command have made, as one file."""

from __future__ import annotations

import importlib
from argparse import Namespace

from fairseq_normalign.cli.options import command
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import locked
from fairseq_normalign.runs.folder import RunFolder
from fairseq_normalign.runs.measure import made_in

DESCRIPTION = """Merge the shards of `normalign align --num-shards N --shard-id K --output OUTPUT`,
or of another command with these options, from OUTPUT.run to OUTPUT. OUTPUT.run is removed."""
WITH_SHARDS = ("align", "export", "heads", "methods", "mixing", "shortlist", "stats")
EXAMPLE = "normalign merge corpus.pharaoh"


OPTIONS = """
OUTPUT  the --output of all shards
"""


parse_args = command("merge", DESCRIPTION, EXAMPLE, OPTIONS)


def main(args: Namespace) -> None:
    folder = RunFolder(args.output)
    if not folder.path.is_dir():
        raise InputError(f"{folder.path}: no such folder; run the shards before merge")
    folder.refuse_open()
    with locked(folder.path / "merge", leave=True):
        folder.refuse_running()
        options = Namespace(**{**folder.options(), "output": args.output})
        if options.command not in WITH_SHARDS:
            raise InputError(f"{folder.path}: is of {options.command}, which has no shards")
        module = importlib.import_module(f"fairseq_normalign.cli.{options.command}")
        module.finish(options, made_in(folder))
        folder.remove()
