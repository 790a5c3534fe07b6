"""``normalign convert CHECKPOINT --arch ARCH -o FILE``: a checkpoint of the variant to fairseq's
own, or back."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fairseq_normalign.host.checkpoint import convert


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="normalign convert",
        description="Write a checkpoint as one of another architecture with the same parameters: "
        "transformer_normalign "
        "to transformer, which fairseq loads without the plugin, or back.",
        epilog="example: normalign convert checkpoint_best.pt --arch transformer -o plain.pt",
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT")
    parser.add_argument("--arch", required=True, help="transformer, transformer_normalign, …")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the checkpoint to write"
    )
    return parser.parse_args(argv)


def main(args: argparse.Namespace) -> None:
    convert(args.checkpoint, args.arch, args.output)
