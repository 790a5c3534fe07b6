"""``normalign evaluate DATA --path A.pt B.pt …``: did pruning cost anything? Models side by side,
one row for each."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from fairseq_normalign.analysis.evaluation import TOKENIZERS, GoldTexts, Texts, compare
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import whole_file
from fairseq_normalign.host import options
from fairseq_normalign.host.pairs import PairReader
from fairseq_normalign.host.translate import SEARCH
from fairseq_normalign.report import pictures
from fairseq_normalign.report.pruning import as_json, comparison_table, pruning_picture

EXAMPLE = "normalign evaluate data-bin --path full.pt pruned.pt --remove-bpe sentencepiece"


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = options.get_parser(
        "evaluate",
        argv,
        description="Models side by side, one row for each: heads, parameters, size of the "
        "checkpoint, BLEU and chrF\n"
        "of its translations, AER where gold is given, and speed of generation against the first "
        "model.",
        example=EXAMPLE,
    )
    parser.usage = "normalign evaluate DATA --path CHECKPOINT [CHECKPOINT …] [options]"
    parser.set_defaults(**SEARCH)
    shown = {
        "path": "the checkpoints; they share dictionaries",
        "beam": "beam size",
        "lenpen": "length penalty",
    }
    for action in parser._actions:
        if action.dest in shown:
            default = f" (default: {SEARCH[action.dest]:g})" if action.dest in SEARCH else ""
            action.help = shown[action.dest] + default
        if action.dest == "path":
            action.nargs = "+"
    add_options(parser)
    return check(options.parse_args(parser, argv))


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "translation", "a binarised --gen-subset of DATA, or two text files"
    )
    group.add_argument("--source-file", metavar="FILE", help="text to translate")
    group.add_argument("--target-file", metavar="FILE", help="references, compared as they are")
    group.add_argument(
        "--limit", type=int, metavar="N", help="translate the first N sentences (default: all)"
    )
    group.add_argument(
        "--tokenize",
        choices=TOKENIZERS,
        default="13a",
        help="sacrebleu's tokeniser for BLEU; none for text that is tokenised (default: "
        "%(default)s)",
    )
    group.add_argument("--lowercase", action="store_true", help="BLEU and chrF ignore case")
    group = parser.add_argument_group("alignment", "AER as of normalign align with its defaults")
    options.add_gold_options(group, "gold links")
    group.add_argument(
        "--gold-source",
        metavar="FILE",
        help="source text of the gold pairs, split into words at blanks",
    )
    group.add_argument("--gold-target", metavar="FILE", help="target text of the gold pairs")
    group = parser.add_argument_group("output")
    group.add_argument("-o", "--output", metavar="FILE", help="write the rows here as JSON too")
    group.add_argument(
        "--plot", metavar="FILE", help="draw BLEU and heads left: .png, .pdf or .svg"
    )


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Refuses what would fail after all models have translated."""
    if (args.source_file is None) != (args.target_file is None):
        raise InputError("--source-file and --target-file go together")
    if len({name is None for name in (args.gold, args.gold_source, args.gold_target)}) > 1:
        raise InputError("--gold, --gold-source and --gold-target go together")
    if args.limit is not None and args.limit < 1:
        raise InputError(f"--limit {args.limit}: expected a number from 1")
    if args.beam < 1:
        raise InputError(f"--beam {args.beam}: expected a number from 1")
    if args.score_reference:
        raise InputError("--score-reference translates nothing; leave it out")
    if args.plot and not args.plot.endswith(pictures.FORMATS):
        raise InputError(
            f"--plot {args.plot}: expected a name that ends in {', '.join(pictures.FORMATS)}"
        )
    for path in filter(None, (args.output, args.plot)):
        if not Path(path).parent.is_dir():
            raise InputError(f"{path}: cannot be written: no such directory")
    return args


def main(args: argparse.Namespace) -> None:
    rows = compare(
        args.path,
        args.data,
        Texts(args.source_file, args.target_file) if args.source_file else args.gen_subset,
        reader=partial(PairReader.from_args, args=args),
        gold=GoldTexts(options.gold(args), args.gold_source, args.gold_target)
        if args.gold
        else None,
        search=vars(args),
        tokenize=args.tokenize,
        lowercase=args.lowercase,
        limit=args.limit,
        max_tokens=args.max_tokens,
        device=args.device,
        dtype="float16" if args.fp16 else "bfloat16" if args.bf16 else "float32",
        overrides=args.model_overrides,
    )
    print(comparison_table(rows))
    if args.output:
        with whole_file(args.output) as file:
            json.dump(as_json(rows), file, indent=1, ensure_ascii=False)
    if args.plot:
        pictures.save(pruning_picture(rows), args.plot)
