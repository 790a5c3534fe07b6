"""``normalign evaluate DATA --path A.pt B.pt …``: models side by side, one row for each."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

from fairseq_normalign.attention.methods import method_of
from fairseq_normalign.cli import options
from fairseq_normalign.cli.output import add_output_options, print_result, write_result_files
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.comparison import EvaluateOptions, GoldTexts, Texts
from fairseq_normalign.host.search import SEARCH
from fairseq_normalign.options import add_flags, read_options

DESCRIPTION = """Models side by side, one row for each: heads, parameters, size of the checkpoint,
BLEU and chrF of its translations, AER where gold is given, and speed of generation against the
first model."""
EXAMPLE = "normalign evaluate data-bin --path full.pt pruned.pt --remove-bpe sentencepiece"


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = options.model_parser(
        "evaluate", description=DESCRIPTION, example=EXAMPLE, several=True
    )
    group = parser.add_argument_group("search", "as in fairseq-generate")
    group.add_argument(
        "--beam",
        type=options.positive,
        metavar="N",
        help=f"beam size (default: {SEARCH['beam']})",
    )
    group.add_argument(
        "--lenpen",
        type=float,
        metavar="X",
        help=f"length penalty (default: {SEARCH['lenpen']:g})",
    )
    return options.parse(parser, argv, add_options, check, several=True)


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("text", "a binarised --gen-subset of DATA, or two text files")
    group.add_argument("--source-file", metavar="FILE", help="text to translate")
    group.add_argument("--target-file", metavar="FILE", help="references, compared as they are")
    options.add_segmentation_options(group)
    options.add_too_long_option(group)
    add_flags(parser, EvaluateOptions)
    group = parser.add_argument_group("gold", "for AER as of normalign align with its defaults")
    options.add_gold_options(group, "gold links")
    for side in ("source", "target"):
        group.add_argument(
            f"--gold-{side}",
            metavar="FILE",
            help=f"{side} text of the gold pairs, split into words at blanks",
        )
    add_output_options(parser)


def check(args: argparse.Namespace) -> None:
    """Refuses what would fail after all models have translated."""
    if (args.source_file is None) != (args.target_file is None):
        raise InputError("--source-file and --target-file go together")
    if len({name is None for name in (args.gold, args.gold_source, args.gold_target)}) > 1:
        raise InputError("--gold, --gold-source and --gold-target go together")
    if args.user_dir is None:  # another plugin may have methods of its own
        method_of(args.method)
    if "--score-reference" in args.fairseq_argv:
        raise InputError("--score-reference translates nothing; leave it out")


def main(args: argparse.Namespace) -> None:
    from fairseq_normalign.heads.evaluation import compare
    from fairseq_normalign.host.options import complete, gold
    from fairseq_normalign.host.pairs import PairReader

    complete(args, SEARCH)
    corpus = Texts(args.source_file, args.target_file) if args.source_file else args.gen_subset
    half = "bfloat16" if args.bf16 else "float32"
    how = read_options(
        EvaluateOptions,
        args,
        reader=partial(PairReader.from_args, args=args),
        gold=GoldTexts(gold(args), args.gold_source, args.gold_target) if args.gold else None,
        search=vars(args),
        too_long=args.too_long,
        max_tokens=args.max_tokens,
        device=args.device,
        dtype="float16" if args.fp16 else half,
        overrides=args.model_overrides,
    )
    result = compare(args.path, args.data, corpus, how)
    write_result_files(result, args)
    print_result(result, args)
