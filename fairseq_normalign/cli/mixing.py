"""``normalign mixing MODEL``: how much context attention blocks mix in."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from fairseq_normalign.cli import options
from fairseq_normalign.cli.blocks import (
    add_block_options,
    block_tasks,
    check_block_options,
    show_blocks,
)
from fairseq_normalign.cli.output import add_output_options
from fairseq_normalign.cli.runs import add_run_options, run_command
from fairseq_normalign.errors import InputError
from fairseq_normalign.names import ANALYSES
from fairseq_normalign.runs.measure import Made

DESCRIPTION = """How much of what an attention block hands on is context, and how much is the token
itself: the mixing ratio of Kobayashi et al. (2021) by layer and category of tokens, for
self-attention of encoder and decoder and for source–target attention, and its rank correlation
with frequency. Several checkpoints of one architecture give mean ± deviation."""
EXAMPLE = "normalign mixing deen/ a.de a.en --plot mixing.png"
AVERAGES = {
    "macro": "over a sentence, then over sentences",
    "micro": "over all tokens",
}


def add_options(parser: ArgumentParser) -> None:
    add_block_options(parser)
    group = add_output_options(parser)
    group.add_argument(
        "--analyses",
        nargs="+",
        default=["ATTNRESLN-N"],
        metavar="NAME",
        help=f"whose ratios are shown by layer and category: {', '.join(ANALYSES)}, or all "
        "(default: ATTNRESLN-N)",
    )
    averages = "; ".join(f"{name}: {meaning}" for name, meaning in AVERAGES.items())
    group.add_argument(
        "--average",
        choices=tuple(AVERAGES),
        default="macro",
        help=f"of the ratios by layer and category ({averages}; default: %(default)s)",
    )
    parser.set_defaults(mixing=True, statistics=False)
    add_run_options(parser)


def check(args: Namespace) -> None:
    check_block_options(args)
    analyses_of(args)


def analyses_of(args: Namespace) -> list[str]:
    """The analyses that are shown by layer and category."""
    if args.analyses == ["all"]:
        return list(ANALYSES)
    names = [name.upper() for name in args.analyses]
    for name in names:
        if name not in ANALYSES:
            raise InputError(f"--analyses {name}: choose from {', '.join(ANALYSES)}, or all")
    return names


parse_args = options.model_command("mixing", DESCRIPTION, EXAMPLE, add_options, check, several=True)


def main(args: Namespace) -> None:
    run_command("mixing", args, block_tasks, finish)


def finish(args: Namespace, made: Mapping[str, Made]) -> None:
    """Writes and prints what came out."""
    from fairseq_normalign.layers.mixing import MixingResult

    def result_of(survey, signature):
        return MixingResult(survey.mixing, signature, analyses_of(args), args.average)

    show_blocks(args, made, result_of, average=args.average)
