"""``normalign align --all --gold FILE``: error rates of layers, methods and steps."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_normalign.attention.methods import method_of, methods_without_files
from fairseq_normalign.cli import options
from fairseq_normalign.cli.align_run import align_options_of
from fairseq_normalign.cli.checkpoints import options_of_each
from fairseq_normalign.cli.shell import print_signature
from fairseq_normalign.files import short_names
from fairseq_normalign.progress import bar
from fairseq_normalign.text.links import refuse_other_count
from fairseq_normalign.version import __version__

if TYPE_CHECKING:
    from fairseq_normalign.alignment.error_table import ErrorTable

TABLE_METHODS = ("weights", "norms", "head-norms")  # which one pass yields together
WIDE = 3  # methods whose layers fit side by side


def add_table_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("table", "error rates instead of links")
    group.add_argument(
        "--all",
        action="store_true",
        help="print a table of AERs: layers × methods × steps, and a line for each method with "
        "interval and cost; of several checkpoints, mean ± deviation",
    )
    group.add_argument(
        "--methods",
        nargs="+",
        metavar="NAME",
        help="of the table, or all; those of the whole model are slow; of more than "
        f"{WIDE}, layers are in --json alone (default: {' '.join(TABLE_METHODS)})",
    )
    group.add_argument("--heads", action="store_true", help="a row for each head too")
    options.add_gold_options(group, "gold links")
    group.add_argument("--json", metavar="FILE", help="write the table here as JSON too")


def table_methods(names: list[str] | None) -> list[str]:
    """The methods of the table."""
    if names is None:
        return list(TABLE_METHODS)
    if names == ["all"]:
        return methods_without_files()
    for name in names:
        method_of(name)
    return list(dict.fromkeys(names))


def print_table(args: argparse.Namespace) -> None:
    """Prints the tables, of several checkpoints together if several are named."""
    from fairseq_normalign.host.options import gold
    from fairseq_normalign.report.method_table import method_table
    from fairseq_normalign.report.tables import aer_table, write_tables

    tables = {}
    for name, of_one in zip(short_names(args.path), options_of_each(args), strict=True):
        tables[name] = table_of(of_one, name)
    methods = table_methods(args.methods)
    if len(methods) <= WIDE or args.heads:
        print(aer_table(*tables.values()), end="\n\n")
    print(method_table(*tables.values()))
    of_gold = {"gold": Path(args.gold).name, **gold(args).read_as()}
    signature = {
        "checkpoint": ",".join(tables),
        **of_gold,
        **table_signature(args, methods),
        **options.policy_for_long_pairs(args),
    }
    if args.json:
        write_tables(tables, {**signature, "version": __version__}, args.json)
    print_signature(signature)


def table_signature(args: argparse.Namespace, methods: Sequence[str]) -> dict[str, str]:
    """How soft alignments become links, and those of some methods in their own way."""
    align_options = align_options_of(args)
    common = align_options.extraction()
    ways = {method: align_options.extraction(method) for method in methods}
    signature = dict(common)
    for method, way in ways.items():
        if way != common:
            signature[method] = ",".join(way.values())
    return signature


def table_of(args: argparse.Namespace, name: str) -> ErrorTable:
    """The error rates of one checkpoint, and what the methods cost."""
    from fairseq_normalign.alignment.method_cost import SAMPLE, method_costs
    from fairseq_normalign.alignment.method_errors import error_table, passes
    from fairseq_normalign.host.options import corpus, fitted, gold, load

    model = load(args)
    unfitted, total = corpus(args, model.reader)
    links = gold(args)
    refuse_other_count(links, total)
    (pairs,) = fitted(args, [unfitted], [model.forcing])
    sample = list(islice(pairs, SAMPLE))
    methods = table_methods(args.methods)
    runs = None if total is None else total * len(passes(methods))
    with bar(name, total=runs) as shown:
        table = error_table(
            model,
            chain(sample, pairs),
            links,
            methods,
            options=align_options_of(args),
            heads=args.heads,
            progress=shown.update,
        )
    places = {method: table.choice(method) for method in table.choices}
    costs = method_costs(
        model.forcing, sample, places, batch_tokens=args.max_tokens, title=f"{name}, cost"
    )
    return table._replace(costs=costs)
