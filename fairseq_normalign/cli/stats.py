"""``normalign stats DATA --path CHECKPOINT``: statistics of attention weights and norms."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from fairseq_normalign.cli import options
from fairseq_normalign.cli.blocks import (
    add_block_options,
    block_tasks,
    check_block_options,
    measures_of,
    signature_of,
)
from fairseq_normalign.cli.runs import add_run_options, run_command
from fairseq_normalign.cli.shell import print_signature
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import whole_file
from fairseq_normalign.runs.measure import Made

if TYPE_CHECKING:
    from fairseq_normalign.layers.block_survey import BlockSurvey

DESCRIPTION = """Statistics of attention weights α and of ‖f(x)‖, as in section 4 of Kobayashi et
al. (2020), for every attention: lengths of x and f(x), expansion rates of f, averages of α and
‖αf(x)‖ by category of tokens and layer, rank correlations of α, ‖f(x)‖ and frequency. Several
checkpoints of one architecture give mean ± deviation."""
EXAMPLE = "normalign stats data-bin --path best.pt --remove-bpe sentencepiece --plot stats.png"
FIGURES = (
    *("weights", "norms", "transformed", "cells", "rank-weights", "rank-norms"),
    *("spread", "singular"),
)


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = options.model_parser("stats", description=DESCRIPTION, example=EXAMPLE, several=True)
    return options.parse(parser, argv, add_options, check, several=True)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_block_options(parser)
    group = parser.add_argument_group("output")
    group.add_argument(
        "--mixing",
        action="store_true",
        help="also what normalign mixing tells, from the same pass over the corpus",
    )
    group.add_argument(
        "-o", "--output", metavar="FILE.json", help="write everything here, with singular values"
    )
    group.add_argument(
        "--plot", metavar="FILE", help="a picture of the first checkpoint: .png, .pdf or .svg"
    )
    group.add_argument(
        "--figures",
        nargs="+",
        default=list(FIGURES),
        metavar="NAME",
        help=f"what --plot shows: {', '.join(FIGURES)} (default: all)",
    )
    add_run_options(parser)


def check(args: argparse.Namespace) -> None:
    check_block_options(args)
    for name in args.figures:
        if name not in FIGURES:
            raise InputError(f"--figures {name}: expected any of: {', '.join(FIGURES)}")


def main(args: argparse.Namespace) -> None:
    run_command("stats", args, partial(block_tasks, mixing=args.mixing, statistics=True), finish)


def finish(args: argparse.Namespace, made: Mapping[str, Made]) -> None:
    """Writes and prints what came out."""
    from fairseq_normalign.report import mixing as mixing_report
    from fairseq_normalign.report import statistics as report

    measures = measures_of(args, {}, mixing=args.mixing, statistics=True)
    by_model = [made[measure.name].result(measure) for measure in measures]
    signature = signature_of(args, by_model[0])
    if not by_model[0].statistics:
        raise InputError("the model has no attention heads left")
    write(args, by_model, signature)
    print(report.as_text([of_model.statistics for of_model in by_model]))
    if args.mixing:
        print()
        mixing = [of_model.mixing for of_model in by_model]
        print(mixing_report.as_text(mixing, ["ATTNRESLN-N"], "macro"))
    print_signature(signature)


def write(
    args: argparse.Namespace, by_model: Sequence[BlockSurvey], signature: Mapping[str, Any]
) -> None:
    """The files that the options ask for."""
    from fairseq_normalign.report import mixing as mixing_report
    from fairseq_normalign.report import pictures
    from fairseq_normalign.report import statistics as report
    from fairseq_normalign.report.statistics_pictures import picture

    statistics = [of_model.statistics for of_model in by_model]
    if args.output:
        contents = report.as_json(statistics, args.path, signature)
        if args.mixing:
            mixing = [of_model.mixing for of_model in by_model]
            contents["mixing"] = mixing_report.as_json(mixing, args.path, signature)["models"]
        with whole_file(args.output) as file:
            json.dump(contents, file, indent=1, ensure_ascii=False, allow_nan=False)
    if args.plot:
        pictures.save(picture(statistics[0], args.figures), args.plot)
