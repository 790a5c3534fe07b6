"""``normalign plot DATA --path CHECKPOINT --line N -o FILE.png``: one pair's soft alignments."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TypeVar

from fairseq_normalign.alignment.soft import STEPS, Evidence
from fairseq_normalign.analysis.methods import METHODS, method_of
from fairseq_normalign.cli import options
from fairseq_normalign.errors import InputError

AUTO = "auto"
EXAMPLE = "normalign plot data-bin --path best.pt --remove-bpe sentencepiece --line 3 -o pair.png"
Item = TypeVar("Item")


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = options.model_parser(
        "plot",
        description="A picture of one sentence pair's soft alignments, one panel for each method, "
        "gold framed.",
        example=EXAMPLE,
    )
    return options.parse(parser, argv, add_options, check)


def check(args: argparse.Namespace) -> None:
    """Refuses a name that is no picture's, and methods that are not there."""
    if not args.output.endswith(options.PICTURES):
        expected = ", ".join(options.PICTURES)
        raise InputError(f"--output {args.output}: expected a name that ends in {expected}")
    if args.user_dir is None:  # another plugin may have methods of its own
        for name in args.method:
            method_of(name)


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_corpus_options(parser)
    group = parser.add_argument_group("picture")
    group.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="the picture: .png, .pdf or .svg"
    )
    group.add_argument(
        "--line",
        type=options.positive,
        default=1,
        metavar="N",
        help="sentence pair, from 1 (default: 1)",
    )
    group.add_argument(
        "--layer",
        type=options.layer,
        default=AUTO,
        metavar="N",
        help="decoder layer, from 1, or auto (default: auto)",
    )
    group.add_argument(
        "--step", choices=(*STEPS, AUTO), default=AUTO, help="see normalign align (default: auto)"
    )
    group.add_argument(
        "--method",
        nargs="+",
        metavar="NAME",
        default=["weights", "norms"],
        help=f"one panel each: {', '.join(METHODS)} (default: weights norms)",
    )
    options.add_gold_options(group, "gold links, framed: solid sure, dotted possible")


def main(args: argparse.Namespace) -> None:
    from fairseq_normalign.analysis.aligner import NormAligner
    from fairseq_normalign.host.options import complete, corpus, fitted, gold, load
    from fairseq_normalign.report import pictures

    complete(args)
    model = load(args)
    undecided = NormAligner(*model, layer=args.layer, step=args.step, batch_tokens=args.max_tokens)
    streams = fitted(args, [corpus(args, model.reader).pairs], [model.forcing])
    aligner, (pairs,) = undecided.decide(*streams)
    pair = nth(pairs, args.line, "the corpus")
    if not (pair.source.text and pair.target.text):
        raise InputError(f"--line {args.line}: nothing to draw: one of the sentences is empty")
    framed = nth(gold(args), args.line, args.gold) if args.gold else None
    evidences = [evidence_of(name, aligner.place) for name in args.method]
    (softs,) = aligner.evidences_many([pair], evidences)
    titles = map(title, evidences)
    panels = [(name, soft.words) for name, soft in zip(titles, softs, strict=True)]
    figure = pictures.soft_alignments(panels, pair.source.text, pair.target.text, framed)
    pictures.save(figure, args.output)


def evidence_of(name: str, of_norms: Evidence) -> Evidence:
    """A method at the layer and step that norms would take, as far as it has them."""
    method = method_of(name)
    layer = of_norms.layer if method.layers else None
    step = of_norms.step if of_norms.step in method.steps else method.steps[0]
    return Evidence(name, layer, step)


def title(evidence: Evidence) -> str:
    place = "all layers" if evidence.layer is None else f"layer {evidence.layer + 1}"
    return f"{evidence.method}, {place}, align with {evidence.step}"


def nth(items: Iterable[Item], number: int, name: str) -> Item:
    """Item ``number``, from 1."""
    for item in islice(items, number - 1, number):
        return item
    raise InputError(f"--line {number}: {name} has no such line")
