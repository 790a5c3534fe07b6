"""``normalign report DATA --path CHECKPOINT -o FILE.html``: everything on one page."""

from __future__ import annotations

import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from itertools import islice
from typing import Any

from fairseq_normalign.attention.extract import RULES, check_extract
from fairseq_normalign.attention.methods import METHODS
from fairseq_normalign.attention.soft import EOS
from fairseq_normalign.cli import checks, options
from fairseq_normalign.cli.checks import check_several
from fairseq_normalign.cli.parser import CommandParser
from fairseq_normalign.cli.shell import note
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import (
    is_stream,
    read_lines,
    refuse_overwriting,
    short_names,
    whole_file,
)
from fairseq_normalign.results.blocks import as_json
from fairseq_normalign.results.page import Included, overview, page, sections
from fairseq_normalign.results.result import read_result

PARTS = ("heads", "mixing", "statistics")
PAGE_BYTES = 600_000  # what the page takes beside the soft alignments
DESCRIPTION = """Write an HTML report, one file: alignments of a corpus to browse, error rates of
layers and methods, maps of heads, mixing ratios, and results that other commands wrote as JSON.
Without a model it shows that JSON alone."""
EXAMPLE = """normalign report deen/ test.de test.en -o report.html
         normalign report --include heads.json mixing.json relevance.jsonl -o report.html"""


def parse_args(argv: Sequence[str]) -> Namespace:
    if not {"-h", "--help", "--help-all"} & set(argv):  # help is that of all options
        parser = CommandParser("report")
        add_page_options(parser)
        args, of_model = parser.parse_known_args(argv)
        if not of_model:  # a page of results that other commands wrote
            args.path = []
            if not args.include:
                raise InputError("nothing to show; name a MODEL, or --include FILE.json")
            check_page(args)
            checks.check_output(args.output, *args.include)
            return args
    return parse_all(argv)


def add_options(parser: ArgumentParser) -> None:
    options.add_corpus_options(parser)
    group = parser.add_argument_group("what is measured")
    group.add_argument(
        "--method",
        dest="methods",
        nargs="+",
        metavar="NAME",
        default=["norms", "weights"],
        help=f"ways to align: {', '.join(METHODS)}; those of the whole model are slow "
        "(default: norms weights)",
    )
    options.add_gold_options(group, "gold links: framed, and error rates of all layers and heads")
    options.add_table(
        group,
        {
            "--links": (
                "FILE",
                "links of the same pairs to browse beside: of two models combined, of another "
                "aligner; words from 0",
                str,
                [],
                "+",
            ),
            "--extract": (
                "NAME",
                f"how links are chosen: {', '.join(RULES)} (default: each method's own)",
            ),
            "--eos": (
                EOS,
                "null: a word that takes most from </s> gets no link; skip: </s> is left out",
                str,
                "null",
            ),
            "--no-heads": "whole layers alone: a smaller file, sooner",
        },
    )
    group.add_argument(
        "--measure",
        nargs="*",
        choices=PARTS,
        default=["heads", "mixing"],
        metavar="PART",
        help=f"beside alignments: any of {', '.join(PARTS)}, or none (default: heads mixing)",
    )
    options.add_table(
        group,
        {
            "--limit": ("N", "pairs that heads and mixing are measured on", options.positive, 500),
            "--max-sentences": (
                "N",
                "pairs that can be browsed, the first ones",
                options.positive,
                500,
            ),
        },
    )
    add_page_options(parser)


def add_page_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("page")
    group.add_argument("-o", "--output", metavar="FILE", required=True, help="the page: .html")
    group.add_argument(
        "--include",
        nargs="+",
        default=[],
        metavar="FILE",
        help="JSON of methods, aer, heads, mixing, stats, evolution, probe or evaluate, or the "
        "log of gates",
    )
    group.add_argument(
        "--title", default="normalign report", help="title of the page (default: %(default)s)"
    )
    group.add_argument(
        "--max-megabytes",
        type=options.positive,
        default=15,
        metavar="N",
        help="how large the page may be: pairs that do not fit are left out",
    )


def check(args: Namespace) -> None:
    """Refuses options that cannot be meant, before anything is loaded."""
    check_page(args)
    check_several(args)
    if args.gold:  # sentences show links, and error rates are taken by them
        checks.refuse_streams(args.gold, *args.links)
    check_extract(args.extract or "argmax")
    args.methods = list(dict.fromkeys(args.methods))
    checks.check_methods(args, *args.methods)


def check_page(args: Namespace) -> None:
    if not args.output.endswith((".html", ".htm")):
        raise InputError(f"--output {args.output}: the name must end in .html")
    refuse_overwriting(args.output, *args.include)


parse_all = options.model_command("report", DESCRIPTION, EXAMPLE, add_options, check, several=True)


def main(args: Namespace) -> None:
    included = read_included(args.include)
    contents: dict[str, Any] = {"browser": None}
    packed: dict[str, str] = {}
    first = overview([], None, included)
    if args.path:
        from fairseq_normalign.cli.model import complete
        from fairseq_normalign.cli.report_models import gathered

        complete(args)
        budget = max(1, 1_000_000 * args.max_megabytes - PAGE_BYTES)
        first, included, browser = gathered(args, included, budget)
        contents, packed = {"browser": browser.as_json()}, browser.packed()
    contents["sections"] = as_json([first, *sections(included)])
    write(args, "".join(page(args.title, contents, packed)))


def read_included(paths: Sequence[str]) -> list[Included]:
    """What files hold: JSON of our commands, or logs of ``fairseq-train --log-relevance``."""
    from fairseq_normalign.heads.relevance_log import GateLog, read_log

    included: list[Included] = []
    for path, name in zip(paths, short_names(paths), strict=True):
        first = "" if is_stream(path) else next(islice(read_lines(path), 1), "")
        is_log = first.startswith("{") and '"updates"' in first
        included.append((name, GateLog(read_log(path)) if is_log else read_result(path)))
    return included


def write(args: Namespace, text: str) -> None:
    """Writes the page, and says how large it is."""
    with whole_file(args.output) as file:
        file.write(text)
    size = len(text.encode("utf-8"))
    note(f"{args.output}: {size / 1e6:.1f} MB")
    if size > 1_000_000 * args.max_megabytes:
        warnings.warn(
            f"{args.output} is larger than --max-megabytes {args.max_megabytes}; fewer "
            "--max-sentences, --method or --no-heads make it smaller",
            stacklevel=2,
        )
