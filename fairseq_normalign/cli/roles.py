"""``normalign roles A.json B.json …``: what the heads of several models do, side by side."""

from __future__ import annotations

from argparse import Namespace

from fairseq_normalign.cli.checks import check_outputs
from fairseq_normalign.cli.options import command
from fairseq_normalign.cli.output import OUTPUT, show
from fairseq_normalign.names import parse_kinds

DESCRIPTION = """What the heads of several models do, side by side, as of a model and the same with
fewer heads: how many are positional, syntactic, for rare tokens, of several functions or of none;
and the roles of each head in every model (Voita et al., 2019, Fig. 8). Reads what normalign heads
wrote of each model with -o. Heads of pruned models have the names that they had in the full one."""
EXAMPLE = "normalign roles full.json pruned-18.json pruned-9.json --plot roles.png"


OPTIONS = """
HEADS...                    FILE.json of normalign heads -o
--attention NAMES = encoder  encoder, decoder, or both with a comma between
"""


def check(args: Namespace) -> None:
    args.attention = parse_kinds("--attention", args.attention)
    check_outputs(args, *args.heads)


parse_args = command("roles", DESCRIPTION, EXAMPLE, OPTIONS + OUTPUT, check)


def main(args: Namespace) -> None:
    from fairseq_normalign.heads.role_comparison import compared

    show(compared(args.heads, args.attention), args)
