"""``normalign plot DATA --path CHECKPOINT --line N -o FILE.png``: one pair's soft alignments."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from fairseq_normalign.alignment.aer import count
from fairseq_normalign.alignment.combine import link_matrix
from fairseq_normalign.attention.extract import RULES, check_extract
from fairseq_normalign.attention.methods import METHODS, method_of
from fairseq_normalign.attention.soft import STEPS, Evidence
from fairseq_normalign.cli import checks, options
from fairseq_normalign.errors import InputError

if TYPE_CHECKING:
    from fairseq_normalign.alignment.aligner import NormAligner
    from fairseq_normalign.alignment.pictures import Panel
    from fairseq_normalign.host.pairs import Pair
    from fairseq_normalign.host.teacher_forcing import TeacherForcing
    from fairseq_normalign.text.links import Gold

AUTO, ALL = "auto", "all"
DESCRIPTION = """Draw the soft alignments of one sentence pair: a panel for each method, with gold
links framed. With --layers, a panel for each method and layer, with its links framed, and the gold
in a panel of its own."""
EXAMPLE = "normalign plot deen/ test.de test.en --line 3 -o pair.png"
Item = TypeVar("Item")


def check(args: Namespace) -> None:
    """Refuses options that do not go together, and unknown methods and formats."""
    checks.check_picture("--output", args.output)
    checks.excludes(args, "layers", "layer")
    checks.requires(args, "layers", "extract")
    check_extract(args.extract or "argmax")
    checks.check_methods(args, *args.method)


OPTIONS = f"""
picture:
  -o --output FILE = required  the picture: .png, .pdf or .svg
  --line N = 1         sentence pair, from 1
  --layer N = auto     decoder layer, from 1, or auto
  --layers N...        a panel for each of these layers, or all; the links are framed, and --gold
                       has a panel of its own
  --step {"|".join(STEPS)}|auto = auto  see normalign align
  --method NAME... = weights norms  one panel each, or a row of panels: {", ".join(METHODS)}
  --extract NAME       how links are chosen that --layers frames: {", ".join(RULES)} (default:
                       argmax)
{options.gold_options("gold links, framed: solid sure, dotted possible")}"""


def layer_or_all(text: str) -> int | str:
    return text if text == ALL else options.positive(text)


parse_args = options.model_command(
    "plot",
    DESCRIPTION,
    EXAMPLE,
    options.CORPUS + OPTIONS,
    check,
    layer=options.layer,
    layers=layer_or_all,
)


def main(args: Namespace) -> None:
    from fairseq_normalign.alignment.aligner import NormAligner
    from fairseq_normalign.alignment.pictures import soft_alignments
    from fairseq_normalign.cli.model import complete
    from fairseq_normalign.host.options import gold, load
    from fairseq_normalign.host.raw_corpus import corpus
    from fairseq_normalign.host.special_tokens import languages_of
    from fairseq_normalign.results.figure import save

    complete(args)
    of_gold = nth(gold(args), args.line, args.gold) if args.gold else None
    model = load(args)
    layers = layers_of(args, model.forcing)
    # With layers and a step there is nothing to decide.
    layer = layers[0] + 1 if layers and args.step != AUTO else args.layer
    extract = args.extract or "argmax"
    options = {"extract": extract, "batch_tokens": args.max_tokens}
    aligner = NormAligner(*model, layer=layer, step=args.step, **options)
    decided, (pairs,) = aligner.decide_on(*corpus(args, [model]).streams)
    pair = nth(pairs, args.line, "the corpus")
    source, target = pair.source.text, pair.target.text
    if not (source and target):
        raise InputError(f"--line {args.line}: nothing to draw: one of the sentences is empty")
    if of_gold is not None:  # refuses links outside the pair
        try:
            link_matrix(of_gold.possible, (len(target), len(source)), f"{args.gold}:{args.line}")
        except InputError as error:
            raise InputError(f"{error}; or use --gold-index 1, or --reverse-gold") from None
    titles = []
    for side, language in zip(("source", "target"), languages_of(model.reader.task), strict=True):
        titles.append(f"{side} ({language})" if language else side)
    title = f"Pair {args.line}"
    if layers:
        title += f". Frames: links by {extract}"
    elif args.gold:
        title += ". Frames: gold links, solid if sure, dotted if possible"
    rows = []
    for method in args.method:
        places = evidences_of(method, layers, decided.decision.evidence)
        rows.append(panels_of(aligner, pair, places, of_gold, framed=bool(layers)))
    panels = rows if layers else [list(chain(*rows))]
    figure = soft_alignments(panels, (source, target), of_gold, titles=titles, title=title)
    save(figure, args.output)


def nth(items: Iterable[Item], number: int, name: str) -> Item:
    """Item ``number``, from 1."""
    lines = 0
    for lines, item in enumerate(items, 1):
        if lines == number:
            return item
    raise InputError(f"--line {number}: {name} has {lines} lines")


def layers_of(args: Namespace, forcing: TeacherForcing) -> list[int]:
    """The layers that ``--layers`` names, from 0."""
    from fairseq_normalign.alignment.aligner import checked_layer

    if ALL in args.layers:
        return forcing.layers_with_heads()
    return [checked_layer(forcing, layer) for layer in dict.fromkeys(args.layers)]


def evidences_of(name: str, layers: Sequence[int | None], chosen: Evidence) -> list[Evidence]:
    """A method at some layers, or at the one that was chosen; at that step, if it has it."""
    method = method_of(name)
    step = chosen.step if chosen.step in method.steps else method.steps[0]
    if not method.layers:
        return [Evidence(name, None, step)]
    return [Evidence(name, layer, step) for layer in layers or [chosen.layer]]


def panels_of(
    aligner: NormAligner,
    pair: Pair,
    evidences: Sequence[Evidence],
    gold: Gold | None,
    *,
    framed: bool,
) -> list[Panel]:
    """A panel for each evidence, with its links and how well they align if they are framed."""
    from fairseq_normalign.alignment.pictures import Panel

    (softs,) = aligner.evidences_many([pair], evidences)
    panels = []
    for evidence, soft in zip(evidences, softs, strict=True):
        layer, _ = evidence.numbers
        place = f"layer {layer}" if layer else "all layers"
        title = f"{evidence.method}, {place}, step {evidence.step}"
        links = set(aligner.links(soft)) if framed else None
        if links is not None and gold is not None:
            title += f"\nAER {100 * count(links, gold).aer:.1f}"
        panels.append(Panel(title, soft.words, links))
    return panels
