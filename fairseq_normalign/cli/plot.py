"""``normalign plot DATA --path CHECKPOINT --line N -o FILE.png``: one pair's soft alignments."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

from fairseq_normalign.alignment.aer import count
from fairseq_normalign.attention.extract import RULES, check_extract
from fairseq_normalign.attention.methods import METHODS, method_of
from fairseq_normalign.attention.soft import STEPS, Evidence
from fairseq_normalign.cli import options
from fairseq_normalign.errors import InputError

if TYPE_CHECKING:
    from fairseq_normalign.alignment.aligner import DecidedAligner, NormAligner
    from fairseq_normalign.alignment.pictures import Panel
    from fairseq_normalign.host.options import ReadyModel
    from fairseq_normalign.host.pairs import Pair
    from fairseq_normalign.text.links import Gold, Link

AUTO, ALL = "auto", "all"
DESCRIPTION = """A picture of one sentence pair's soft alignments, one panel for each method, gold
framed. With --layers, one panel for each method and layer, links framed, and the gold beside."""
EXAMPLE = "normalign plot data-bin --path best.pt --remove-bpe sentencepiece --line 3 -o pair.png"
Item = TypeVar("Item")


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = options.model_parser("plot", description=DESCRIPTION, example=EXAMPLE)
    return options.parse(parser, argv, add_options, check)


def check(args: argparse.Namespace) -> None:
    """Refuses a name that is no picture's, methods that are not there, and options that clash."""
    options.check_picture("--output", args.output)
    if args.layers and args.layer != AUTO:
        raise InputError("--layer and --layers both name layers; expected one of them")
    if args.layers and AUTO in args.layers:
        raise InputError("--layers auto: expected numbers from 1, or all")
    if args.layers and ALL in args.layers and len(args.layers) > 1:
        raise InputError("--layers all names every layer; expected no other beside it")
    if args.extract and not args.layers:
        raise InputError("--extract tells what --layers frames; expected --layers with it")
    check_extract(args.extract or "argmax")
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
        "--layers",
        type=lambda text: text if text == ALL else options.layer(text),
        nargs="+",
        metavar="N",
        help="a panel for each of these layers, or all; the links are framed, and --gold has a "
        "panel of its own",
    )
    group.add_argument(
        "--step", choices=(*STEPS, AUTO), default=AUTO, help="see normalign align (default: auto)"
    )
    group.add_argument(
        "--method",
        nargs="+",
        metavar="NAME",
        default=["weights", "norms"],
        help=f"one panel each, or a row of panels: {', '.join(METHODS)} (default: weights norms)",
    )
    group.add_argument(
        "--extract",
        metavar="NAME",
        help=f"how links are chosen that --layers frames: {', '.join(RULES)} (default: argmax)",
    )
    options.add_gold_options(group, "gold links, framed: solid sure, dotted possible")


def main(args: argparse.Namespace) -> None:
    from fairseq_normalign.alignment.pictures import Sentences, soft_alignments
    from fairseq_normalign.host.options import complete, gold, load
    from fairseq_normalign.host.raw_corpus import corpus, corpus_texts, count_lines
    from fairseq_normalign.host.special_tokens import languages_of
    from fairseq_normalign.results.figure import save

    complete(args)
    of_gold = nth(gold(args), args.line, args.gold) if args.gold else None
    if args.source_file or args.target_file or args.hypotheses:
        check_line(args, count_lines(corpus_texts(args)[0]))  # before a model is loaded
    model = load(args)
    streams, total = corpus(args, [model])
    check_line(args, total)
    decided, (pairs,) = aligner_of(args, model).decide_on(*streams)
    pair = nth(pairs, args.line, "the corpus")
    source, target = pair.source.text, pair.target.text
    if not (source and target):
        raise InputError(f"--line {args.line}: nothing to draw: one of the sentences is empty")
    check_gold(args, of_gold, (len(source), len(target)))
    titles = []
    for side, language in zip(("source", "target"), languages_of(model.reader.task), strict=True):
        titles.append(f"{side} ({language})" if language else side)
    panels = panels_of(args, decided, pair, of_gold)
    sentences = Sentences(source, target, *titles)
    save(soft_alignments(panels, sentences, of_gold, title=headline(args)), args.output)


def check_line(args: argparse.Namespace, total: int | None) -> None:
    """Refuses a line behind the last one of the corpus, if it is known how many there are."""
    if total is not None and args.line > total:
        raise InputError(f"--line {args.line}: the corpus has {total} lines")


def check_gold(args: argparse.Namespace, gold: Gold | None, sizes: tuple[int, int]) -> None:
    """Refuses gold links of words that the pair has not."""
    for source, target in sorted(gold.possible if gold else ()):
        if source >= sizes[0] or target >= sizes[1]:
            raise InputError(
                f"{args.gold}: line {args.line} links word {source} with {target}, from 0, where "
                f"there are {sizes[0]} and {sizes[1]} words; is it counted from 1 (--gold-index "
                "1), or is the target's first (--reverse-gold)?"
            )


def aligner_of(args: argparse.Namespace, model: ReadyModel) -> NormAligner:
    """An aligner by norms, which decides on the layer and step that are not named."""
    from fairseq_normalign.alignment.aligner import NormAligner

    layer = args.layer
    if args.layers and args.step != AUTO:  # then there is nothing to decide
        layer = layers_of(args, model)[0] + 1
    return NormAligner(
        *model,
        layer=layer,
        step=args.step,
        extract=args.extract or "argmax",
        batch_tokens=args.max_tokens,
    )


def layers_of(args: argparse.Namespace, model: ReadyModel | NormAligner) -> list[int]:
    """The layers that are named, from 0."""
    from fairseq_normalign.alignment.aligner import checked_layer

    if args.layers == [ALL]:
        return model.forcing.layers_with_heads()
    return [checked_layer(model.forcing, layer) for layer in args.layers]


def panels_of(
    args: argparse.Namespace, decided: DecidedAligner, pair: Pair, gold: Gold | None
) -> list[list[Panel]]:
    """One row with a panel for each method; or with --layers a row for each method."""
    from fairseq_normalign.alignment.pictures import Panel

    (aligner,) = decided.models
    panels = []
    for name in args.method:
        places = [decided.decision]
        if args.layers:
            places = [places[0]._replace(layer=layer) for layer in layers_of(args, aligner)]
        evidences = list(dict.fromkeys(evidence_of(name, place) for place in places))
        (softs,) = aligner.evidences_many([pair], evidences)
        row = []
        for evidence, soft in zip(evidences, softs, strict=True):
            links = set(aligner.links(soft)) if args.layers else None
            row.append(Panel(title(evidence, links, gold), soft.words, links))
        panels.append(row)
    return panels if args.layers else [list(chain(*panels))]


def evidence_of(name: str, of_norms: Evidence) -> Evidence:
    """A method at the layer and step that norms would take, as far as it has them."""
    method = method_of(name)
    layer = of_norms.layer if method.layers else None
    step = of_norms.step if of_norms.step in method.steps else method.steps[0]
    return Evidence(name, layer, step)


def title(evidence: Evidence, links: set[Link] | None, gold: Gold | None) -> str:
    """What a panel shows, and how well its links align."""
    place = "all layers" if evidence.layer is None else f"layer {evidence.layer + 1}"
    text = f"{evidence.method}, {place}, align with {evidence.step}"
    if links is not None and gold is not None:
        text += f"\nAER {100 * count(links, gold).aer:.1f}"
    return text


def headline(args: argparse.Namespace) -> str:
    """Which pair it is, and what frames mean."""
    if args.layers:
        return f"pair {args.line}; framed: links by {args.extract or 'argmax'}"
    if args.gold:
        return f"pair {args.line}; framed: gold, solid if sure, dotted if possible"
    return f"pair {args.line}"


def nth(items: Iterable[Item], number: int, name: str) -> Item:
    """Item ``number``, from 1."""
    for item in islice(items, number - 1, number):
        return item
    raise InputError(f"--line {number}: {name} has no such line")
