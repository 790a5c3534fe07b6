"""``normalign methods``: what ``--method`` takes; of a model, how well each method aligns."""

from __future__ import annotations

import textwrap
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from fairseq_normalign.alignment.evidence import AlignOptions
from fairseq_normalign.attention.extract import check_extract
from fairseq_normalign.attention.methods import (
    A_FILE,
    METHODS,
    Method,
    methods_without_files,
)
from fairseq_normalign.cli import options
from fairseq_normalign.cli.checks import check_methods, check_several
from fairseq_normalign.cli.output import OUTPUT, show
from fairseq_normalign.cli.runs import (
    Task,
    check_run_options,
    checked_each,
    each,
    open_corpus,
    reading_task,
    run_command,
)
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.head_scores import HEAD_SCORES
from fairseq_normalign.options import add_flags
from fairseq_normalign.runs.folder import RunFolder
from fairseq_normalign.runs.measure import Made, Plan, prepared_job
from fairseq_normalign.text.links import refuse_other_count

if TYPE_CHECKING:
    from fairseq_normalign.alignment.error_table import MethodErrors

TABLE_METHODS = ("weights", "norms", "head-norms")  # which one pass yields together
EXTRACTION = ("eos", "extract", "source_merge", "target_merge")  # the other choices are the table
DESCRIPTION = """With a model and gold links: alignment error rates of its layers, by method and
step, with intervals and the cost of each method. Several checkpoints give mean ± deviation. Without
a model: the list of methods, for --method, and of the scores of heads."""
EXAMPLE = """normalign methods
         normalign methods deen/ test.de test.en --gold test.talp --gold-index 1 -f latex"""


OPTIONS = f"""
what is measured:
  --method NAME... = {" ".join(TABLE_METHODS)}
      methods of the table, or all; those of the whole model are slow
  --heads    measure single heads, too
  --no-cost  do not measure the time and memory of each method
{options.gold_options("gold links")}"""


def check(args: Namespace) -> None:
    """Refuses options that do not go together, before anything is loaded."""
    if args.gold is None:
        raise InputError("error rates need gold links: --gold FILE")
    check_several(args)
    check_run_options(args)
    if len(args.path) > 1 and args.heads:
        raise InputError("--heads takes one checkpoint: heads of two models do not correspond")
    check_extract(args.extract or "argmax")
    if args.method == ["all"]:
        args.method = methods_without_files()
    args.method = list(dict.fromkeys(args.method))
    check_methods(args, *args.method)


parse_table = options.model_command(
    "methods",
    DESCRIPTION,
    EXAMPLE,
    options.CORPUS + OPTIONS + OUTPUT,
    check,
    flags=(Plan,),
    more=partial(add_flags, options=AlignOptions, only=EXTRACTION),
    several=True,
)


def parse_args(argv: Sequence[str]) -> Namespace:
    if set(argv) <= {"-q", "--quiet"}:
        return Namespace(path=None, quiet=bool(argv))
    return parse_table(argv)


def main(args: Namespace) -> None:
    if args.path is None:
        print_list()
    else:
        run_command("methods", args, tasks, finish)


def tasks(args: Namespace, folder: RunFolder | None) -> Iterator[Task]:
    """The error rates of each checkpoint."""
    from fairseq_normalign.alignment.error_table import with_gold

    for of_one in checked_each(args):
        measure = measure_of(of_one)
        corpus, reader = open_corpus(of_one)
        refuse_other_count(measure.gold, corpus.total)
        items = with_gold(measure.gold, corpus.items)
        job = prepared_job(measure, reader, items, folder, corpus.total)
        yield reading_task(of_one, [job], corpus, reader, "error rates")


def measure_of(args: Namespace) -> MethodErrors:
    """What is measured of one checkpoint."""
    from fairseq_normalign.alignment.error_table import MethodErrors
    from fairseq_normalign.host.options import gold

    extraction = {name: getattr(args, name) for name in EXTRACTION}
    align_options = AlignOptions(**extraction, batch_tokens=args.max_tokens)
    measure = MethodErrors(
        gold(args), args.method, align_options, heads=args.heads, costs=not args.no_cost
    )
    if args.model_number is None:
        return measure
    return replace(measure, name=f"{measure.name}-{args.model_number}")


def finish(args: Namespace, made: Mapping[str, Made]) -> None:
    """Writes and prints the table, of several checkpoints their mean."""
    from fairseq_normalign.results.several import together

    of_each = each(args)
    names = [of_one.model_name for of_one in of_each]
    policy = options.policy_for_long_pairs(args)
    tables = {}
    for of_one in of_each:
        measure = measure_of(of_one)
        common = measure.signature()
        version = common.pop("version")
        signature = {"checkpoint": ",".join(names), **common, **policy, "version": version}
        tables[of_one.model_name] = replace(made[measure.name].result(measure), signature=signature)
    show(together(tables, signature), args)


def print_list() -> None:
    print("Soft methods, for --method and --evidence")
    print(listed((name, described(method)) for name, method in METHODS.items()))
    print("\nScores of heads, for normalign heads --scores and (*) normalign prune --by")
    scores = []
    for name, score in HEAD_SCORES.items():
        starred = f"{name} *" if score.ranks else name
        scores.append((starred, score.summary))
    print(listed(scores))


def described(method: Method) -> str:
    """What a method is, and where it can be had."""
    by_layer = "each layer and head" if method.heads else "each layer"
    where = by_layer if method.layers else "the whole model"
    text = f"{method.summary}. Of {where}, at step {' or '.join(method.steps)}."
    if method.default == A_FILE:
        text += " NAME:FILE names its file."
    elif method.parameter is not None:
        text += f" NAME:NUMBER sets {method.parameter} (default: {method.default:g})."
    return text


def listed(entries: Iterable[tuple[str, str]]) -> str:
    """Names and what they mean, in two columns."""
    from tabulate import tabulate

    return textwrap.indent(tabulate(entries, tablefmt="plain", maxcolwidths=[None, 75]), "  ")
