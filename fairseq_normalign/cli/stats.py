"""``normalign stats MODEL``: statistics of attention weights and norms."""

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
from fairseq_normalign.runs.measure import Made

DESCRIPTION = """Statistics of attention weights α and of ‖f(x)‖, as in section 4 of Kobayashi et
al. (2020), for every attention: lengths of x and f(x), expansion rates of f, averages of α and
‖αf(x)‖ by category of tokens and layer, rank correlations of α, ‖f(x)‖ and frequency. Several
checkpoints of one architecture give mean ± deviation."""
EXAMPLE = "normalign stats deen/ a.de a.en --plot stats.png"


def add_options(parser: ArgumentParser) -> None:
    add_block_options(parser)
    group = add_output_options(parser)
    group.add_argument(
        "--mixing",
        action="store_true",
        help="also measure what normalign mixing does, in the same pass over the corpus",
    )
    parser.set_defaults(statistics=True, layers=False)
    add_run_options(parser)


parse_args = options.model_command(
    "stats", DESCRIPTION, EXAMPLE, add_options, check_block_options, several=True
)


def main(args: Namespace) -> None:
    run_command("stats", args, block_tasks, finish)


def finish(args: Namespace, made: Mapping[str, Made]) -> None:
    """Writes and prints what came out."""
    from fairseq_normalign.layers.mixing import MixingResult
    from fairseq_normalign.layers.statistics import StatisticsResult

    def result_of(survey, signature):
        if not survey.statistics:
            raise InputError("the model has no attention heads left")
        mixing = MixingResult(survey.mixing, signature) if args.mixing else None
        return StatisticsResult(survey.statistics, signature, mixing)

    show_blocks(args, made, result_of)
