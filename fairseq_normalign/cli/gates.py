"""``normalign gates RELEVANCE.jsonl``: how gates and relevance of heads went during a training."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fairseq_normalign.cli import options
from fairseq_normalign.cli.output import (
    add_output_options,
    check_outputs,
    print_result,
    write_result_files,
)
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import name_of

DESCRIPTION = """How gates and LRP relevance of heads moved together while a training closed gates:
from the file that `fairseq-train --criterion label_smoothed_cross_entropy_l0 --log-relevance N`
writes to --save-dir."""
EXAMPLE = "normalign gates checkpoints/relevance.jsonl --plot gates.png"


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = options.CommandParser("gates", description=DESCRIPTION, epilog=f"Example: {EXAMPLE}")
    parser.add_argument("log", metavar="RELEVANCE.jsonl", help="the file; - is stdin")
    add_output_options(parser)
    args = parser.parse_args(argv)
    check_outputs(args, args.log)
    return args


def main(args: argparse.Namespace) -> None:
    from fairseq_normalign.heads.relevance_log import GateLog, read_log

    entries = read_log(args.log)
    if not entries:
        raise InputError(f"{name_of(args.log)}: is empty; expected a line for each validation")
    result = GateLog(entries)
    write_result_files(result, args)
    print_result(result, args)
