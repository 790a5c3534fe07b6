"""``normalign gates RELEVANCE.jsonl``: how gates and relevance of heads went during a training."""

from __future__ import annotations

from argparse import Namespace

from fairseq_normalign.cli.checks import check_outputs
from fairseq_normalign.cli.options import command
from fairseq_normalign.cli.output import OUTPUT, show
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import name_of

DESCRIPTION = """How gates and LRP relevance of heads moved together while a training closed gates:
from the file that `fairseq-train --criterion label_smoothed_cross_entropy_l0 --log-relevance N`
writes to --save-dir."""
EXAMPLE = "normalign gates checkpoints/relevance.jsonl --plot gates.png"
OPTIONS = """
LOG  the file RELEVANCE.jsonl; - is stdin
"""


parse_args = command(
    "gates", DESCRIPTION, EXAMPLE, OPTIONS + OUTPUT, lambda args: check_outputs(args, args.log)
)


def main(args: Namespace) -> None:
    from fairseq_normalign.heads.relevance_log import GateLog, read_log

    entries = read_log(args.log)
    if not entries:
        raise InputError(f"{name_of(args.log)}: the log is empty")
    show(GateLog(entries), args)
