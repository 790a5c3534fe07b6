"""``normalign align --all --gold FILE``: error rates of layers, methods and steps."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_normalign.alignment.evidence import AlignOptions
from fairseq_normalign.attention.methods import method_of, methods_without_files
from fairseq_normalign.cli import options
from fairseq_normalign.cli.align_run import align_options_of
from fairseq_normalign.cli.checkpoints import options_of_each
from fairseq_normalign.cli.output import add_look_options, show
from fairseq_normalign.files import short_names
from fairseq_normalign.progress import bar
from fairseq_normalign.text.links import GoldFile, refuse_other_count
from fairseq_normalign.version import __version__

if TYPE_CHECKING:
    from fairseq_normalign.alignment.error_table import ErrorTable

TABLE_METHODS = ("weights", "norms", "head-norms")  # which one pass yields together


def add_table_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("table", "error rates instead of links")
    group.add_argument(
        "--all",
        action="store_true",
        help="print a table of AERs: layers × methods × steps, and a line for each method with "
        "interval and cost; of several checkpoints, mean ± deviation; -o writes JSON",
    )
    group.add_argument(
        "--methods",
        nargs="+",
        metavar="NAME",
        help="of the table, or all; those of the whole model are slow (default: "
        f"{' '.join(TABLE_METHODS)})",
    )
    group.add_argument("--heads", action="store_true", help="maps of single heads too")
    options.add_gold_options(group, "gold links")
    add_look_options(group)


def table_methods(names: list[str] | None) -> list[str]:
    """The methods of the table."""
    if names is None:
        return list(TABLE_METHODS)
    if names == ["all"]:
        return methods_without_files()
    for name in names:
        method_of(name)
    return list(dict.fromkeys(names))


def print_table(args: Namespace) -> None:
    """Prints the table, of several checkpoints their mean."""
    from fairseq_normalign.host.options import gold
    from fairseq_normalign.results.several import together

    names = short_names(args.path)
    signature = {
        "checkpoint": ",".join(names),
        **table_signature(gold(args), align_options_of(args), table_methods(args.methods)),
        **options.policy_for_long_pairs(args),
        "version": __version__,
    }
    tables = {}
    for name, of_one in zip(names, options_of_each(args), strict=True):
        tables[name] = replace(table_of(of_one, name), signature=signature)
    show(together(tables, signature), args)


def table_signature(
    gold: GoldFile, align_options: AlignOptions, methods: Sequence[str]
) -> dict[str, object]:
    """The gold, how soft alignments become links, and those of some methods in their own way."""
    common = align_options.extraction()
    signature = {"gold": Path(gold.name).name, **gold.read_as(), **common}
    for method in methods:
        way = align_options.extraction(method)
        if way != common:
            signature[method] = ",".join(way.values())
    return signature


def table_of(args: Namespace, name: str) -> ErrorTable:
    """The error rates of one checkpoint, and what the methods cost."""
    from fairseq_normalign.alignment.method_cost import SAMPLE, method_costs
    from fairseq_normalign.alignment.method_errors import error_table
    from fairseq_normalign.host.options import gold, load
    from fairseq_normalign.host.raw_corpus import corpus

    model = load(args)
    (pairs,), total = corpus(args, [model])
    links = gold(args)
    refuse_other_count(links, total)
    sample = list(islice(pairs, SAMPLE))
    methods = table_methods(args.methods)
    with bar(name, total=total) as shown:
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
    return replace(table, costs=costs)
