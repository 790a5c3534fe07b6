"""``normalign stats MODEL``: statistics of attention weights and norms."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping

from fairseq_normalign.cli import options
from fairseq_normalign.cli.blocks import (
    BLOCKS,
    block_tasks,
    check_block_options,
    show_blocks,
)
from fairseq_normalign.cli.output import OUTPUT
from fairseq_normalign.cli.runs import run_command
from fairseq_normalign.errors import InputError
from fairseq_normalign.runs.measure import Made, Plan

DESCRIPTION = """Statistics of attention weights α and of ‖f(x)‖, as in section 4 of Kobayashi et
al. (2020), for every attention: lengths of x and f(x), expansion rates of f, averages of α and
‖αf(x)‖ by category of tokens and layer, rank correlations of α, ‖f(x)‖ and frequency. Several
checkpoints of one architecture give mean ± deviation."""
EXAMPLE = "normalign stats deen/ a.de a.en --plot stats.png"


MIXING = """
output:
  --mixing  also measure what normalign mixing does, in the same pass over the corpus
"""


def check(args: Namespace) -> None:
    check_block_options(args)
    args.statistics, args.layers = True, False


parse_args = options.model_command(
    "stats",
    DESCRIPTION,
    EXAMPLE,
    BLOCKS + OUTPUT + MIXING,
    check,
    flags=(Plan,),
    several=True,
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
