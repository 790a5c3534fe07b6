"""``normalign align DATA --path CHECKPOINT``: word alignments of a corpus."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from fairseq_normalign.alignment.evidence import (
    AUTO,
    COMBINATIONS,
    FORM,
    AlignOptions,
    parse_evidences,
)
from fairseq_normalign.alignment.signature import refuse_unsignable
from fairseq_normalign.attention.extract import check_extract, extractor
from fairseq_normalign.attention.methods import SHIFT_ATT, method_of
from fairseq_normalign.cli import options
from fairseq_normalign.cli.align_run import finish, link_files, tasks
from fairseq_normalign.cli.align_table import add_table_options, print_table, table_methods
from fairseq_normalign.cli.checkpoints import check_several
from fairseq_normalign.cli.runs import add_run_options, check_run_options, run_command
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import is_stream
from fairseq_normalign.options import add_flags

DESCRIPTION = """Word alignments from a translation Transformer: a Pharaoh line (source-target,
counted from 0) for each sentence pair, in input order. `normalign methods` tells what --method
takes."""
EXAMPLE = (
    "normalign align data-bin --path best.pt --remove-bpe sentencepiece --layer 2 > test.pharaoh"
)


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = options.model_parser("align", description=DESCRIPTION, example=EXAMPLE, several=True)
    return options.parse(parser, argv, add_options, check, several=True)


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_corpus_options(parser)
    add_flags(parser, AlignOptions)
    add_combination_options(parser)
    add_decision_option(parser)
    add_output_options(parser)
    add_table_options(parser)
    add_run_options(parser)


def add_combination_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("combination", "many evidences, of one model or of two")
    group.add_argument(
        "--combine",
        choices=COMBINATIONS,
        help="combine both steps (and directions): see docs/combine.md (default: learned with "
        "--reverse-path or links of other aligners, else none)",
    )
    options.add_reverse_options(group, "for --combine and for --method shift-att")
    group.add_argument(
        "--evidence", nargs="+", metavar="E", help=f"{FORM} (default: chosen without gold)"
    )
    group.add_argument(
        "--learn-pairs",
        type=options.positive,
        metavar="N",
        help="how many of the first pairs the lexicon of learned is counted in (default: 2000)",
    )
    group.add_argument(
        "--lexicon",
        metavar="FILE",
        help="use the lexicon in this file; if there is no such file, keep the lexicon there",
    )


def add_decision_option(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("decision")
    group.add_argument(
        "--decision",
        metavar="FILE",
        help="layer, step or learned weights of another run; if there is no such file, what is "
        "decided on the first pairs is kept there",
    )


def add_output_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o", "--output", metavar="FILE", help="write here, and the signature to FILE.json"
    )
    group.add_argument(
        "--index",
        type=int,
        choices=(0, 1),
        default=0,
        help="first word in the output (default: 0)",
    )
    group.add_argument(
        "--confidence",
        action="store_true",
        help="write each link's share of its row: 0-0:0.930; the last digit may depend on "
        "--max-tokens",
    )


def check(args: argparse.Namespace) -> None:
    """Refuses options that do not go together, before anything is loaded."""
    check_table(args)
    if len(args.path) > 1 and not args.all:
        raise InputError(
            f"--path names {len(args.path)} checkpoints; expected one, or the table of --all, "
            "which takes several"
        )
    if len(args.path) > 1 and args.heads:
        raise InputError(
            "--heads: heads of different models do not correspond; expected one checkpoint with it"
        )
    options.check_reverse_options(args)
    check_several(args)
    check_run_options(args)
    if args.output and not args.all:
        check_signed_output(args)
    check_extract(args.extract or "argmax")
    args.combine = args.combine or default_combination(args)
    check_combination(args)
    if args.user_dir is None:  # another plugin may have methods of its own
        check_methods(args)


def check_table(args: argparse.Namespace) -> None:
    """Refuses what does not go together with the table of error rates, or without it."""
    if args.all != (args.gold is not None):
        raise InputError("--all and --gold FILE go together; one alignment: see normalign aer")
    for name in ("heads", "plot", "methods"):
        if getattr(args, name) and not args.all:
            raise InputError(f"--{name} belongs to the table of --all")
    if args.format != "text" and not args.all:
        raise InputError("--format belongs to the table of --all")
    if args.all and (args.layer, args.step, args.head) != (AUTO, AUTO, None):
        raise InputError("--all has every layer and step; expected no --layer, --step or --head")
    if args.all and (args.workers or args.engine != "local" or args.num_shards > 1 or args.restart):
        raise InputError(
            "--all works in one process; expected no --workers, --engine, --num-shards or "
            "--restart with it"
        )


def check_signed_output(args: argparse.Namespace) -> None:
    """Refuses an output that cannot be written in the end, or its signature."""
    for path in (args.output, f"{args.output}.json"):
        options.check_output(path, *options.inputs_of(args))
    refuse_unsignable(args.output)


def check_methods(args: argparse.Namespace) -> None:
    """Refuses methods that are not in the table."""
    method_of(args.method)
    table_methods(args.methods)
    parse_evidences(args.evidence or [])


def check_combination(args: argparse.Namespace) -> None:
    if args.combine is None:
        if args.evidence:
            raise InputError(
                f"--evidence needs --combine, which says how: {', '.join(COMBINATIONS)}"
            )
        if args.reverse_path and args.all:
            raise InputError("--all is of one model; expected no --reverse-path with it")
    elif args.all or (args.layer, args.step, args.head) != (AUTO, AUTO, None):
        raise InputError(
            "--combine takes both steps; name layers with --evidence, not --layer, --head, --step "
            "or --all"
        )
    else:
        extractor(args.extract or "relative")  # a combination has no pieces
    if args.combine != "learned":
        for name in ("learn_pairs", "lexicon"):
            if getattr(args, name):
                raise InputError(f"--{name.replace('_', '-')} belongs to --combine learned")
    check_files(args)


def check_files(args: argparse.Namespace) -> None:
    """Refuses files of links and of a lexicon that cannot be read, or written."""
    files = [file.path for file in link_files(args)]
    for path in files:
        if not Path(path).is_file():
            raise InputError(f"links:{path}: no such file")
    for name in ("lexicon", "decision"):
        if getattr(args, name):
            check_kept(args, name)
    for path in (args.lexicon, args.decision, *files):
        if path and args.output:
            options.check_output(args.output, path)


def check_kept(args: argparse.Namespace, name: str) -> None:
    """Refuses a place where a lexicon or decision cannot be kept, before anything is learned."""
    path = getattr(args, name)
    if is_stream(path):
        raise InputError(f"--{name} {path}: expected a file")
    if args.all:
        raise InputError(f"--{name} is of one alignment; expected no --all with it")
    if not Path(path).is_file():
        options.check_output(path, *options.inputs_of(args))
        if args.output and path in (args.output, f"{args.output}.json"):
            raise InputError(f"{path}: is named for two outputs; expected a name for each")


def default_combination(args: argparse.Namespace) -> str | None:
    """Two models, or a model and links of other aligners, are combined unless it is a table."""
    if args.all or args.method == SHIFT_ATT or not (args.reverse_path or link_files(args)):
        return None
    return "learned"


def main(args: argparse.Namespace) -> None:
    if args.all:
        from fairseq_normalign.host.options import complete

        complete(args)
        print_table(args)
    else:
        run_command("align", args, tasks, finish)
