"""``normalign evaluate DATA --path A.pt B.pt …``: models side by side, one row for each."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

from fairseq_normalign.attention.methods import method_of
from fairseq_normalign.cli import options
from fairseq_normalign.cli.output import add_output_options, print_result, write_result_files
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.search import SEARCH

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
    group = parser.add_argument_group("pruning")
    group.add_argument(
        "--scratch",
        metavar="CHECKPOINT",
        nargs="+",
        default=[],
        help="models trained from random initialisation with the heads of some of --path "
        "(--alive-heads), to stand beside those: from trained | from scratch",
    )
    group = parser.add_argument_group(
        "translation", "a binarised --gen-subset of DATA, or two text files"
    )
    group.add_argument("--source-file", metavar="FILE", help="text to translate")
    group.add_argument("--target-file", metavar="FILE", help="references, compared as they are")
    options.add_segmentation_options(group)
    options.add_too_long_option(group)
    group.add_argument(
        "--limit",
        type=options.positive,
        metavar="N",
        help="translate the first N sentences (default: all)",
    )
    group.add_argument(
        "--tokenize",
        default="13a",
        metavar="NAME",
        help="sacrebleu's tokeniser for BLEU; none for text that is tokenised "
        "(default: %(default)s)",
    )
    group.add_argument("--lowercase", action="store_true", help="BLEU and chrF ignore case")
    group = parser.add_argument_group("alignment", "AER as of normalign align with its defaults")
    options.add_gold_options(group, "gold links")
    group.add_argument(
        "--method", default="norms", metavar="NAME", help="of the AER (default: %(default)s)"
    )
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


def dtype_of(args: argparse.Namespace) -> str:
    if args.fp16:
        return "float16"
    return "bfloat16" if args.bf16 else "float32"


def main(args: argparse.Namespace) -> None:
    from fairseq_normalign.heads.evaluation import GoldTexts, compare
    from fairseq_normalign.heads.translation import Texts
    from fairseq_normalign.cli.model import complete
    from fairseq_normalign.host.options import gold
    from fairseq_normalign.host.pairs import PairReader

    complete(args, SEARCH)
    corpus = args.gen_subset
    if args.source_file:
        corpus = Texts(args.source_file, args.target_file)
    gold_texts = None
    if args.gold:
        gold_texts = GoldTexts(gold(args), args.gold_source, args.gold_target)
    result = compare(
        args.path,
        args.data,
        corpus,
        scratch=args.scratch,
        reader=partial(PairReader.from_args, args=args),
        gold=gold_texts,
        method=args.method,
        search=vars(args),
        tokenize=args.tokenize,
        lowercase=args.lowercase,
        limit=args.limit,
        too_long=args.too_long,
        max_tokens=args.max_tokens,
        device=args.device,
        dtype=dtype_of(args),
        overrides=args.model_overrides,
    )
    write_result_files(result, args)
    print_result(result, args)
