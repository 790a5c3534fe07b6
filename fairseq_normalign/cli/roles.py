"""``normalign roles A.json B.json …``: what the heads of several models do, side by side."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fairseq_normalign.cli import options
from fairseq_normalign.names import parse_kinds

DESCRIPTION = """What the heads of several models do, side by side, as of a model and the same with
fewer heads: how many are positional, syntactic, for rare tokens, of several functions or of none;
and the roles of each head in every model (Voita et al., 2019, Fig. 8). Reads what normalign heads
wrote of each model with -o. Heads of pruned models have the names that they had in the full one."""
EXAMPLE = "example: normalign roles full.json pruned-18.json pruned-9.json --plot roles.png"


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = options.CommandParser("roles", description=DESCRIPTION, epilog=EXAMPLE)
    parser.add_argument("heads", metavar="FILE.json", nargs="+", help="of normalign heads -o")
    parser.add_argument(
        "--kinds",
        default="encoder",
        metavar="KINDS",
        help="of attention: encoder, decoder, or both with a comma between (default: %(default)s)",
    )
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="a picture, one stacked column for each model: .png, .pdf or .svg",
    )
    args = parser.parse_args(argv)
    args.kinds = parse_kinds("--kinds", args.kinds)
    if args.plot:
        options.check_picture("--plot", args.plot)
        options.check_output(args.plot, *args.heads)
    return args


def main(args: argparse.Namespace) -> None:
    from fairseq_normalign.report.roles import as_text, read_models

    models = read_models(args.heads)
    if args.plot:
        from fairseq_normalign.report import pictures
        from fairseq_normalign.report.role_pictures import columns_picture

        pictures.save(columns_picture(models, args.kinds), args.plot)
    print("\n\n".join(as_text(models, kind) for kind in args.kinds))
