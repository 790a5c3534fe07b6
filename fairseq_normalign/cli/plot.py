"""``normalign plot DATA --path CHECKPOINT --line N -o FILE.png``: one pair's soft alignments."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

from fairseq_normalign.alignment.aer import count
from fairseq_normalign.attention.extract import RULES, check_extract
from fairseq_normalign.attention.methods import METHODS, method_of
from fairseq_normalign.attention.soft import STEPS, Evidence
from fairseq_normalign.cli import checks, options
from fairseq_normalign.errors import InputError

if TYPE_CHECKING:
    from fairseq_normalign.alignment.aligner import DecidedAligner, NormAligner
    from fairseq_normalign.alignment.pictures import Panel
    from fairseq_normalign.host.options import ReadyModel
    from fairseq_normalign.host.pairs import Pair
    from fairseq_normalign.host.teacher_forcing import TeacherForcing
    from fairseq_normalign.text.links import Gold, Link

AUTO, ALL = "auto", "all"
DESCRIPTION = """A picture of one sentence pair's soft alignments, one panel for each method, gold
framed. With --layers, one panel for each method and layer, links framed, and the gold beside."""
EXAMPLE = "normalign plot data-bin --path best.pt --remove-bpe sentencepiece --line 3 -o pair.png"
Item = TypeVar("Item")


def check(args: Namespace) -> None:
    """Refuses a name that is no picture's, methods that are not there, and options that clash."""
    checks.check_picture("--output", args.output)
    checks.excludes(args, "layers", "layer")
    checks.requires(args, "layers", "extract")
    if args.layers and ALL in args.layers and len(args.layers) > 1:
        raise InputError("--layers all names every layer; expected no other beside it")
    check_extract(args.extract or "argmax")
    checks.check_methods(args, *args.method)


def add_options(parser: ArgumentParser) -> None:
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
        type=lambda text: text if text == ALL else options.positive(text),
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


parse_args = options.model_command("plot", DESCRIPTION, EXAMPLE, add_options, check)


def main(args: Namespace) -> None:
    from fairseq_normalign.alignment.pictures import Sentences, soft_alignments
    from fairseq_normalign.cli.model import complete
    from fairseq_normalign.host.options import gold, load
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
    check_gold(args, of_gold, len(source), len(target))
    titles = []
    for side, language in zip(("source", "target"), languages_of(model.reader.task), strict=True):
        titles.append(f"{side} ({language})" if language else side)
    panels = panels_of(args, decided, pair, of_gold)
    sentences = Sentences(source, target, *titles)
    title = f"pair {args.line}"
    if args.layers:
        title += f"; framed: links by {args.extract or 'argmax'}"
    elif args.gold:
        title += "; framed: gold, solid if sure, dotted if possible"
    save(soft_alignments(panels, sentences, of_gold, title=title), args.output)


def nth(items: Iterable[Item], number: int, name: str) -> Item:
    """Item ``number``, from 1."""
    for item in islice(items, number - 1, number):
        return item
    raise InputError(f"--line {number}: {name} has no such line")


def check_line(args: Namespace, total: int | None) -> None:
    """Refuses a line behind the last one of the corpus, if it is known how many there are."""
    if total is not None and args.line > total:
        raise InputError(f"--line {args.line}: the corpus has {total} lines")


def check_gold(args: Namespace, gold: Gold | None, sources: int, targets: int) -> None:
    """Refuses gold links of words that the pair has not."""
    for source, target in sorted(gold.possible if gold else ()):
        if source >= sources or target >= targets:
            raise InputError(
                f"{args.gold}: line {args.line} links word {source} with {target}, from 0, where "
                f"there are {sources} and {targets} words; is it counted from 1 (--gold-index "
                "1), or is the target's first (--reverse-gold)?"
            )


def aligner_of(args: Namespace, model: ReadyModel) -> NormAligner:
    """An aligner by norms, which decides on the layer and step that are not named."""
    from fairseq_normalign.alignment.aligner import NormAligner

    layer = args.layer
    if args.layers and args.step != AUTO:  # then there is nothing to decide
        layer = layers_of(args, model.forcing)[0] + 1
    extract = args.extract or "argmax"
    return NormAligner(
        *model, layer=layer, step=args.step, extract=extract, batch_tokens=args.max_tokens
    )


def layers_of(args: Namespace, forcing: TeacherForcing) -> list[int]:
    """The layers that ``--layers`` names, from 0."""
    from fairseq_normalign.alignment.aligner import checked_layer

    if args.layers == [ALL]:
        return forcing.layers_with_heads()
    return [checked_layer(forcing, layer) for layer in args.layers]


def panels_of(
    args: Namespace, decided: DecidedAligner, pair: Pair, gold: Gold | None
) -> list[list[Panel]]:
    """One row with a panel for each method; or with --layers a row for each method."""
    from fairseq_normalign.alignment.pictures import Panel

    (aligner,) = decided.models
    layers = [decided.decision.layer]
    if args.layers:
        layers = list(dict.fromkeys(layers_of(args, aligner.forcing)))
    panels = []
    for name in args.method:
        method = method_of(name)
        step = decided.decision.step  # that norms would take, if the method has it
        step = step if step in method.steps else method.steps[0]
        evidences = [Evidence(name, layer, step) for layer in layers if method.layers]
        evidences = evidences or [Evidence(name, None, step)]
        (softs,) = aligner.evidences_many([pair], evidences)
        row = []
        for evidence, soft in zip(evidences, softs, strict=True):
            links = set(aligner.links(soft)) if args.layers else None
            row.append(Panel(title(evidence, links, gold), soft.words, links))
        panels.append(row)
    return panels if args.layers else [list(chain(*panels))]


def title(evidence: Evidence, links: set[Link] | None, gold: Gold | None) -> str:
    """What a panel shows, and how well its links align."""
    place = "all layers" if evidence.layer is None else f"layer {evidence.layer + 1}"
    text = f"{evidence.method}, {place}, align with {evidence.step}"
    if links is not None and gold is not None:
        text += f"\nAER {100 * count(links, gold).aer:.1f}"
    return text
