"""``normalign convert CHECKPOINT --arch ARCH -o FILE``: the same model as another architecture."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fairseq_normalign.cli.options import CommandParser, check_output

DESCRIPTION = """Write a checkpoint as one of another architecture with the same parameters:
transformer_normalign to transformer, which fairseq loads without the plugin, or back."""


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(
        "convert",
        description=DESCRIPTION,
        epilog="example: normalign convert checkpoint_best.pt --arch transformer -o plain.pt",
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT")
    parser.add_argument("--arch", required=True, help="transformer, transformer_normalign, …")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the checkpoint to write"
    )
    args = parser.parse_args(argv)
    check_output(args.output, args.checkpoint)
    return args


def main(args: argparse.Namespace) -> None:
    from fairseq_normalign.host.checkpoint import convert  # late: --help must not wait for PyTorch

    convert(args.checkpoint, args.arch, args.output)
