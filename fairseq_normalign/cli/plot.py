"""``normalign plot DATA --path CHECKPOINT --line N -o FILE.png``: a picture of one pair's soft
alignments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import islice

from fairseq_normalign.alignment.soft import STEPS, Evidence
from fairseq_normalign.analysis.aligner import AUTO, NormAligner
from fairseq_normalign.analysis.methods import METHODS
from fairseq_normalign.errors import InputError
from fairseq_normalign.host import options
from fairseq_normalign.report import pictures

EXAMPLE = "normalign plot data-bin --path best.pt --remove-bpe sentencepiece --line 3 -o pair.png"


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = options.get_parser(
        "plot",
        argv,
        description="A picture of one sentence pair's soft alignments, one panel for each "
        "method, gold framed.",
        example=EXAMPLE,
    )
    options.add_corpus_options(parser)
    group = parser.add_argument_group("picture")
    group.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="the picture: .png, .pdf or .svg"
    )
    group.add_argument(
        "--line", type=int, default=1, metavar="N", help="sentence pair, from 1 (default: 1)"
    )
    group.add_argument(
        "--layer",
        default="auto",
        metavar="N",
        help="decoder layer, from 1, or auto (default: auto)",
    )
    group.add_argument(
        "--step", choices=(*STEPS, AUTO), default=AUTO, help="see normalign align (default: auto)"
    )
    group.add_argument(
        "--method", nargs="+", choices=METHODS, default=["weights", "norms"], help="one panel each"
    )
    options.add_gold_options(group, "gold links, framed: solid sure, dotted possible")
    args = options.parse_args(parser, argv)
    if not args.output.endswith(pictures.FORMATS):
        raise InputError(
            f"--output {args.output}: expected a name that ends in {', '.join(pictures.FORMATS)}"
        )
    return args


def main(args: argparse.Namespace) -> None:
    aligner = NormAligner(*options.load(args), layer=args.layer, step=args.step)
    chosen, pairs = aligner.evidence(options.pairs(args, aligner.reader))
    pair = nth(pairs, args.line, "the corpus")
    if not (pair.source.text and pair.target.text):
        raise InputError(f"--line {args.line}: nothing to draw: one of the sentences is empty")
    gold = nth(options.gold(args), args.line, args.gold) if args.gold else None
    (softs,) = aligner.evidences_many(
        [pair], [Evidence(method, chosen.layer, chosen.step) for method in args.method]
    )
    panels = [
        (f"{method}, layer {chosen.layer + 1}, align with {chosen.step}", soft.words)
        for method, soft in zip(args.method, softs, strict=True)
    ]
    pictures.save(
        pictures.soft_alignments(panels, pair.source.text, pair.target.text, gold), args.output
    )


def nth(items, number: int, name: str):
    found = next(islice(items, number - 1, None), None) if number > 0 else None
    if found is None:
        raise InputError(f"--line {number}: {name} has no such line")
    return found
