"""``normalign report DATA --path CHECKPOINT -o FILE.html``: everything on one page."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_normalign.attention.extract import RULES, check_extract
from fairseq_normalign.attention.methods import METHODS, method_of
from fairseq_normalign.attention.soft import EOS
from fairseq_normalign.cli import options
from fairseq_normalign.cli.checkpoints import check_several
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import (
    is_stream,
    name_of,
    refuse_overwriting,
    short_names,
    whole_file,
)
from fairseq_normalign.progress import is_quiet
from fairseq_normalign.text.links import refuse_other_count

if TYPE_CHECKING:
    from fairseq_normalign.report.html.browser import Browser
    from fairseq_normalign.report.html.included import Included
    from fairseq_normalign.report.html.measuring import Gatherer, Material
    from fairseq_normalign.results.blocks import Section, Table

ENDINGS = (".html", ".htm")
PARTS = ("heads", "mixing", "statistics")
DEFAULT_PARTS = ("heads", "mixing")
MEGABYTES = 15
PAGE_BYTES = 600_000  # what the page takes beside the soft alignments
DESCRIPTION = """One page of HTML that opens from disk: alignments of a corpus to browse, error
rates of layers and methods, maps of heads, mixing ratios; and what other commands wrote as JSON.
Without --path it shows that JSON alone."""
EXAMPLE = """normalign report data-bin --path best.pt --remove-bpe sentencepiece -o report.html
         normalign report --include heads.json mixing.json relevance.jsonl -o report.html"""


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    if names_a_model(argv):
        parser = options.model_parser(
            "report", description=DESCRIPTION, example=EXAMPLE, several=True
        )
        return options.parse(parser, argv, add_options, check, several=True)
    parser = options.CommandParser("report", description=DESCRIPTION, epilog=f"Example: {EXAMPLE}")
    add_page_options(parser)
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        raise InputError(f"{unknown[0]}: belongs to a model; expected --path CHECKPOINT with it")
    args.path = []
    if not args.include:
        raise InputError("nothing to show; expected --path CHECKPOINT, or --include FILE.json")
    check_page(args)
    options.check_output(args.output, *args.include)
    return args


def names_a_model(argv: Sequence[str]) -> bool:
    """Whether a checkpoint is named, or the whole help is asked for."""
    words = [word.partition("=")[0] for word in argv]
    return bool({"--path", "-h", "--help"} & set(words))


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_corpus_options(parser)
    add_measuring_options(parser)
    add_page_options(parser)


def add_measuring_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is measured")
    group.add_argument(
        "--methods",
        nargs="+",
        metavar="NAME",
        default=["norms", "weights"],
        help=f"ways to align: {', '.join(METHODS)}; those of the whole model are slow "
        "(default: norms weights)",
    )
    options.add_gold_options(group, "gold links: framed, and error rates of all layers and heads")
    group.add_argument(
        "--links",
        nargs="+",
        default=[],
        metavar="FILE",
        help="links of the same pairs to browse beside: of two models combined, of another "
        "aligner; words from 0",
    )
    group.add_argument(
        "--extract",
        metavar="NAME",
        help=f"how links are chosen: {', '.join(RULES)} (default: each method's own)",
    )
    group.add_argument(
        "--eos",
        choices=EOS,
        default="null",
        help="null: a word that takes most from </s> gets no link; skip: </s> is left out "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--no-heads", action="store_true", help="whole layers alone: a smaller file, sooner"
    )
    group.add_argument(
        "--measure",
        nargs="*",
        choices=PARTS,
        default=list(DEFAULT_PARTS),
        metavar="PART",
        help=f"beside alignments: any of {', '.join(PARTS)}, or none (default: "
        f"{' '.join(DEFAULT_PARTS)})",
    )
    group.add_argument(
        "--limit",
        type=options.positive,
        default=500,
        metavar="N",
        help="pairs that heads and mixing are measured on (default: %(default)s)",
    )
    group.add_argument(
        "--max-sentences",
        type=options.positive,
        default=500,
        metavar="N",
        help="pairs that can be browsed, the first ones (default: %(default)s)",
    )


def add_page_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("page")
    group.add_argument("-o", "--output", metavar="FILE", required=True, help="the page: .html")
    group.add_argument(
        "--include",
        nargs="+",
        default=[],
        metavar="FILE",
        help="JSON of align --all, aer, heads, mixing, stats, evolution, probe or evaluate, or the "
        "log of gates",
    )
    group.add_argument("--title", default="normalign report", help="default: %(default)s")
    group.add_argument(
        "--max-megabytes",
        type=options.positive,
        default=MEGABYTES,
        metavar="N",
        help="how large the page may be: shares are rounded to fit, and then pairs left out "
        "(default: %(default)s)",
    )


def check(args: argparse.Namespace) -> None:
    """Refuses options that cannot be meant, before anything is loaded."""
    check_page(args)
    check_several(args)
    for path in [args.gold, *args.links] if args.gold else []:
        if is_stream(path):  # sentences show it, and error rates are taken by it
            raise InputError(f"{name_of(path)}: can be read only once; expected a file")
    check_extract(args.extract or "argmax")
    args.methods = list(dict.fromkeys(args.methods))
    if args.user_dir is None:  # another plugin may have methods of its own
        for name in args.methods:
            method_of(name)


def check_page(args: argparse.Namespace) -> None:
    if not args.output.endswith(ENDINGS):
        raise InputError(f"--output {args.output}: expected a name that ends in .html")
    refuse_overwriting(args.output, *args.include)


def main(args: argparse.Namespace) -> None:
    from fairseq_normalign.report.html.included import read_included
    from fairseq_normalign.report.html.overview import overview

    included = read_included(args.include)
    if not args.path:
        write(args, overview([], None, included), included)
        return
    gatherer, facts, models = gathered(args)
    everything = [*gatherer.included, *included]
    first = overview(facts, models, everything, gatherer.advice)
    write(args, first, everything, gatherer.browser())


def gathered(args: argparse.Namespace) -> tuple[Gatherer, list[tuple[str, str]], Table]:
    """All that is measured of the checkpoints, and what is to be told of them and of the corpus."""
    from fairseq_normalign.alignment.aligner import AlignOptions
    from fairseq_normalign.host.options import complete, gold
    from fairseq_normalign.report.html.measuring import Gatherer, ReportOptions

    complete(args)
    budget = max(1, 1_000_000 * args.max_megabytes - PAGE_BYTES)
    measuring = ReportOptions(
        methods=args.methods,
        heads=not args.no_heads,
        parts=args.measure,
        pairs=args.max_sentences,
        limit=args.limit,
        budget=budget,
        align=AlignOptions(extract=args.extract, eos=args.eos, batch_tokens=args.max_tokens),
    )
    gatherer = Gatherer(measuring, (lambda: gold(args)) if args.gold else None)
    names = short_names(args.path)
    # All are read before the first is measured: what cannot be read is refused at once.
    materials = [material_of(args, *model) for model in zip(names, args.path, strict=True)]
    total = materials[0].total
    if args.gold:
        refuse_other_count(gold(args), total)
    for material in materials:
        gatherer.add(material, systems=len(materials))
    for name, path in zip(short_names(args.links), args.links, strict=True):
        gatherer.add_links(path, name, total)
    gatherer.score_links(args.links)
    rows = [model_row(material) for material in materials]
    return gatherer, facts_of(args, gatherer), models_table(rows)


def material_of(args: argparse.Namespace, name: str, path: str) -> Material:
    """A model and the corpus as it reads it."""
    from fairseq_normalign.host.options import load
    from fairseq_normalign.host.raw_corpus import corpus
    from fairseq_normalign.report.html.measuring import Material

    of_one = argparse.Namespace(**{**vars(args), "path": path})
    model = load(of_one)
    (pairs,), total = corpus(of_one, [model])
    first = list(islice(pairs, max(args.max_sentences, args.limit)))
    return Material(name, path, model, first, pairs, total)


def model_row(material: Material) -> list[Any]:
    from fairseq_normalign.host.attention_modules import head_counts

    model = material.model.forcing.model
    counts = head_counts(model)
    heads: dict[str, list[str]] = {kind: [] for kind, _ in counts}
    for (kind, _), number in counts.items():
        heads[kind].append(str(number))
    shape = "; ".join(f"{kind} {' '.join(numbers)}" for kind, numbers in heads.items())
    parameters = sum(parameter.numel() for parameter in model.parameters())
    size = Path(material.path).stat().st_size / 1e6 if Path(material.path).exists() else None
    direction = "–".join(material.languages)
    return [material.name, direction, shape, parameters / 1e6, size]


def models_table(rows: list[list[Any]]) -> Table:
    from fairseq_normalign.results.blocks import Table

    columns = ["model", "languages", "heads of each layer", "million parameters", "file in MB"]
    return Table(columns, rows, "Models", decimals=1)


def facts_of(args: argparse.Namespace, gatherer: Gatherer) -> list[tuple[str, str]]:
    """Where the sentences come from, and how many are shown."""
    texts = [args.source_file, args.target_file, args.hypotheses]
    named = [Path(path).name for path in texts if path]
    corpus = " and ".join(named) or f"{Path(args.data.partition(':')[0]).name}, {args.gen_subset}"
    pairs = gatherer.browser().pairs
    words = [sum(len(pair.source) for pair in pairs), sum(len(pair.target) for pair in pairs)]
    facts = [
        ("corpus", corpus),
        ("gold", Path(args.gold).name if args.gold else "none"),
        ("pairs to browse", f"{len(pairs):,}, of {words[0]:,} and {words[1]:,} words"),
        ("methods", ", ".join(args.methods)),
    ]
    if args.measure:
        facts.append(("pairs that heads and blocks are measured on", f"{gatherer.measured_on:,}"))
    return facts + gatherer.facts()


def write(
    args: argparse.Namespace,
    first: Section,
    included: Sequence[Included],
    browser: Browser | None = None,
) -> None:
    """Writes the page, and says how large it is."""
    from fairseq_normalign.report.html.overview import sections
    from fairseq_normalign.report.html.page import page, written
    from fairseq_normalign.results.blocks import as_json

    contents = {
        "sections": as_json([first, *sections(included)]),
        "browser": None if browser is None else browser.as_json(),
    }
    packed = {} if browser is None else dict(browser.packed())
    with whole_file(args.output) as file:
        size = written(page(args.title, contents, packed), file)
    if not is_quiet():
        print(f"{args.output}: {size / 1e6:.1f} MB", file=sys.stderr)
    if size > 1_000_000 * args.max_megabytes:
        warnings.warn(
            f"{args.output} is larger than --max-megabytes {args.max_megabytes}; fewer "
            "--max-sentences, --methods or --no-heads make it smaller",
            stacklevel=2,
        )
