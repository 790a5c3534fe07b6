"""``normalign gates RELEVANCE.jsonl``: how gates and relevance of heads went during a training."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fairseq_normalign.cli import options
from fairseq_normalign.errors import InputError

DESCRIPTION = """How gates and LRP relevance of heads moved together while a training closed gates:
from the file that `fairseq-train --criterion label_smoothed_cross_entropy_l0 --log-relevance N`
writes to --save-dir."""
EXAMPLE = "normalign gates checkpoints/relevance.jsonl --plot gates.png"


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = options.CommandParser("gates", description=DESCRIPTION, epilog=f"Example: {EXAMPLE}")
    parser.add_argument("log", metavar="RELEVANCE.jsonl", help="the file; - is stdin")
    parser.add_argument(
        "--plot", metavar="FILE", help="a picture of all heads by updates: .png, .pdf or .svg"
    )
    args = parser.parse_args(argv)
    if args.plot:
        options.check_picture("--plot", args.plot)
    return args


def main(args: argparse.Namespace) -> None:
    from fairseq_normalign.files import name_of, refuse_overwriting
    from fairseq_normalign.heads.relevance_log import read_log
    from fairseq_normalign.report import gates, pictures

    entries = read_log(args.log)
    if not entries:
        raise InputError(f"{name_of(args.log)}: is empty; expected a line for each validation")
    if args.plot:
        refuse_overwriting(args.plot, args.log)
        pictures.save(gates.picture(entries), args.plot)
    print(gates.table(entries))
