"""``normalign align DATA --path CHECKPOINT``: word alignments of a corpus."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_normalign.alignment.extract import MERGES, RULES, check_extract, extractor
from fairseq_normalign.alignment.lexicon import Lexicon
from fairseq_normalign.alignment.links import LinkFile, format_links
from fairseq_normalign.alignment.signature import signed_file
from fairseq_normalign.alignment.soft import EOS, STEPS
from fairseq_normalign.analysis.evidence import COMBINATIONS, FORM, LINKS, parse_evidences
from fairseq_normalign.analysis.methods import (
    METHODS,
    SHIFT_ATT,
    method_of,
    methods_without_files,
)
from fairseq_normalign.cli import options
from fairseq_normalign.cli.checkpoints import check_several, options_of_each
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import is_stream, short_names

if TYPE_CHECKING:
    from fairseq_normalign.alignment.error_table import ErrorTable
    from fairseq_normalign.alignment.soft import Soft
    from fairseq_normalign.analysis.aligner import Aligner
    from fairseq_normalign.host.options import ReadyModel

AUTO = "auto"
TABLE_METHODS = ("weights", "norms", "head-norms")  # which one pass yields together
WIDE = 3  # methods whose layers fit side by side
DESCRIPTION = """Word alignments from a translation Transformer: a Pharaoh line (source-target,
counted from 0) for each sentence pair, in input order. `normalign methods` tells what --method
takes."""
EXAMPLE = (
    "normalign align data-bin --path best.pt --remove-bpe sentencepiece --layer 2 > test.pharaoh"
)


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = options.model_parser("align", description=DESCRIPTION, example=EXAMPLE, several=True)
    return options.parse(parser, argv, add_options, check, several=True)


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_corpus_options(parser)
    add_alignment_options(parser)
    add_combination_options(parser)
    add_output_options(parser)
    add_table_options(parser)


def add_alignment_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("alignment")
    group.add_argument(
        "--method",
        default="norms",
        metavar="NAME",
        help=f"what is compared: {', '.join(METHODS)} (default: %(default)s)",
    )
    group.add_argument(
        "--layer",
        type=options.layer,
        default=AUTO,
        metavar="N",
        help="decoder layer, from 1, or auto (default: auto)",
    )
    group.add_argument(
        "--head",
        type=options.positive,
        metavar="N",
        help="one head of the layer, from 1; a pruned model's have the numbers that they had in "
        "the full one (default: all)",
    )
    group.add_argument(
        "--step",
        choices=(*STEPS, AUTO),
        default=AUTO,
        help="take a word's alignment where the decoder reads it or where it predicts it "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--eos",
        choices=EOS,
        default="null",
        help="null: a word that takes most from </s> gets no link; skip: </s> is left out "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--extract",
        metavar="NAME",
        help=f"how links are chosen: {', '.join(RULES)}; threshold:0.3 and relative:0.6 take a "
        "number (default: argmax; piece-argmax of shift-att; grow with --combine learned, relative "
        "with a mean)",
    )
    for side, default in (("source", "sum"), ("target", "mean")):
        group.add_argument(
            f"--{side}-merge",
            choices=MERGES,
            default=default,
            help=f"{side} pieces to words (default: {default})",
        )


def add_combination_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("combination", "many evidences, of one model or of two")
    group.add_argument(
        "--combine",
        choices=COMBINATIONS,
        help="combine both steps (and directions): see docs/combine.md (default: learned with "
        "--reverse-path or links of other aligners, else none)",
    )
    group.add_argument(
        "--reverse-path",
        metavar="CHECKPOINT",
        help="the model of the other direction, for --combine and for --method shift-att",
    )
    group.add_argument(
        "--evidence", nargs="+", metavar="E", help=f"{FORM} (default: chosen without gold)"
    )
    group.add_argument(
        "--learn-pairs",
        type=options.positive,
        metavar="N",
        help="how many of the first pairs the lexicon of learned is counted in (default: 2000)",
    )
    group.add_argument(
        "--lexicon",
        metavar="FILE",
        help="use the lexicon in this file; if there is no such file, keep the lexicon there",
    )


def add_output_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o", "--output", metavar="FILE", help="write here, and the signature to FILE.json"
    )
    group.add_argument(
        "--index",
        type=int,
        choices=(0, 1),
        default=0,
        help="first word in the output (default: 0)",
    )
    group.add_argument(
        "--confidence",
        action="store_true",
        help="write each link's share of its row: 0-0:0.930; the last digit may depend on "
        "--max-tokens",
    )


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


def check(args: argparse.Namespace) -> None:
    """Refuses options that do not go together, before anything is loaded."""
    if args.all != (args.gold is not None):
        raise InputError("--all and --gold FILE go together; one alignment: see normalign aer")
    for name in ("heads", "json", "methods"):
        if getattr(args, name) and not args.all:
            raise InputError(f"--{name} belongs to the table of --all")
    if args.all and (args.layer, args.step, args.head) != (AUTO, AUTO, None):
        raise InputError("--all has every layer and step; expected no --layer, --step or --head")
    if args.all and args.output:
        raise InputError("--all prints a table and writes no --output; name a file with --json")
    if len(args.path) > 1 and not args.all:
        raise InputError(
            f"--path names {len(args.path)} checkpoints; expected one, or the table of --all, "
            "which takes several"
        )
    if len(args.path) > 1 and args.heads:
        raise InputError(
            "--heads: heads of different models do not correspond; expected one checkpoint with it"
        )
    check_several(args)
    if args.output:
        options.check_output(f"{args.output}.json", *options.inputs_of(args))
    check_extract(args.extract or "argmax")
    args.combine = args.combine or default_combination(args)
    check_combination(args)
    if args.user_dir is None:  # another plugin may have methods of its own
        check_methods(args)


def check_methods(args: argparse.Namespace) -> None:
    """Refuses methods that are not in the table."""
    method_of(args.method)
    table_methods(args.methods)
    parse_evidences(args.evidence or [])


def check_combination(args: argparse.Namespace) -> None:
    if args.combine is None:
        if args.evidence:
            raise InputError(
                f"--evidence needs --combine, which says how: {', '.join(COMBINATIONS)}"
            )
        if args.reverse_path and args.all:
            raise InputError("--all is of one model; expected no --reverse-path with it")
    elif args.all or (args.layer, args.step, args.head) != (AUTO, AUTO, None):
        raise InputError(
            "--combine takes both steps; name layers with --evidence, not --layer, --head, --step "
            "or --all"
        )
    else:
        extractor(args.extract or "relative")  # a combination has no pieces
    if args.combine != "learned":
        for name in ("learn_pairs", "lexicon"):
            if getattr(args, name):
                raise InputError(f"--{name.replace('_', '-')} belongs to --combine learned")
    check_files(args)


def check_files(args: argparse.Namespace) -> None:
    """Refuses files of links and of a lexicon that cannot be read, or written."""
    files = link_files(args)
    for path in files:
        if not Path(path).is_file():
            raise InputError(f"links:{path}: no such file")
    if args.lexicon:
        check_lexicon(args)
    for path in (args.lexicon, *files):
        if path and args.output:
            options.check_output(args.output, path)


def check_lexicon(args: argparse.Namespace) -> None:
    """Refuses a place where no lexicon can be kept, before anything is learned."""
    if is_stream(args.lexicon):
        raise InputError(f"--lexicon {args.lexicon}: expected a file")
    if not Path(args.lexicon).is_file():
        options.check_output(args.lexicon, *options.inputs_of(args))
        if args.output and args.lexicon in (args.output, f"{args.output}.json"):
            raise InputError(f"{args.lexicon}: is named for two outputs; expected a name for each")


def default_combination(args: argparse.Namespace) -> str | None:
    """Two models, or a model and links of other aligners, are combined unless it is a table."""
    if args.all or args.method == SHIFT_ATT or not (args.reverse_path or link_files(args)):
        return None
    return "learned"


def link_files(args: argparse.Namespace) -> list[str]:
    """The files of other aligners' links among the evidences."""
    texts = [text for text in args.evidence or [] if LINKS.fullmatch(text)]
    return [file.path for file in parse_evidences(texts)[1]]


def table_methods(names: list[str] | None) -> list[str]:
    """The methods of the table."""
    if names is None:
        return list(TABLE_METHODS)
    if names == ["all"]:
        return methods_without_files()
    for name in names:
        method_of(name)
    return list(dict.fromkeys(names))


def main(args: argparse.Namespace) -> None:
    from tqdm import tqdm

    from fairseq_normalign.host.options import complete, load

    complete(args)
    if args.all:
        print_table(args)
        return
    (args,) = options_of_each(args)
    aligner = load_aligner(args, load(args))
    streams, total = read_streams(args, aligner)
    aligner, streams = aligner.decide(*streams)
    if args.lexicon and not Path(args.lexicon).exists():
        keep_lexicon(args.lexicon, aligner)
    with tqdm(total=total, unit=" pairs", disable=None) as progress:
        write_alignment(args, aligner, aligner.run(*streams, progress=progress.update))


def keep_lexicon(path: str, aligner: Aligner) -> None:
    """Writes what a combined aligner has counted."""
    from fairseq_normalign.analysis.combined import CombinedAligner

    if isinstance(aligner, CombinedAligner) and aligner.model is not None:
        lexicon = aligner.model.lexicon
        if not lexicon.pairs:
            warnings.warn(f"{path}: not written, as no lexicon is used here", stacklevel=2)
            return
        lexicon.write(path)


def load_aligner(args: argparse.Namespace, model: ReadyModel) -> Aligner:
    """The aligner that the options describe."""
    from fairseq_normalign.analysis.aligner import NormAligner
    from fairseq_normalign.analysis.combined import LEARN_PAIRS, CombinedAligner
    from fairseq_normalign.analysis.shift_att import ShiftAttAligner
    from fairseq_normalign.host.options import load

    align_options = align_options_of(args)
    forward = NormAligner(*model, align_options)
    backward = None
    if args.reverse_path:
        backward = NormAligner(*load(args, reverse=True), align_options)
    if args.combine is None:
        return forward if backward is None else ShiftAttAligner(forward, backward)
    evidences, files = parse_evidences(args.evidence or [])
    known = args.lexicon if args.lexicon and Path(args.lexicon).exists() else None
    return CombinedAligner(
        forward,
        backward,
        combine=args.combine,
        evidences=evidences or None,
        extract=args.extract,
        links=len(files),
        learn_pairs=args.learn_pairs or LEARN_PAIRS,
        lexicon=Lexicon.read(known) if known else None,
    )


def align_options_of(args: argparse.Namespace) -> Any:
    from fairseq_normalign.analysis.aligner import AlignOptions

    return AlignOptions(
        method=args.method,
        layer=args.layer,
        head=args.head,
        step=args.step,
        eos=args.eos,
        extract=args.extract,
        source_merge=args.source_merge,
        target_merge=args.target_merge,
        batch_tokens=args.max_tokens,
    )


def read_streams(args: argparse.Namespace, aligner: Aligner) -> tuple[list, int | None]:
    """The corpus as each model of the aligner reads it, and how many pairs it has."""
    from fairseq_normalign.host.options import corpus, fitted

    streams = []
    total = None
    for place, model in enumerate(aligner.models):
        pairs, count = corpus(args, model.reader, reverse=bool(place))
        streams.append(pairs)
        total = total or count
    of_models = fitted(args, streams, [model.forcing for model in aligner.models])
    _, files = parse_evidences(args.evidence or [])
    return [*of_models, *(LinkFile(file.path, reverse=file.reverse) for file in files)], total


def write_alignment(args: argparse.Namespace, aligner: Aligner, softs: Iterable[Soft]) -> None:
    """Writes links (and confidences), then the signature, beside the output or to stderr."""
    signature = aligner.signature()
    if args.confidence:
        signature["batch"] = args.max_tokens  # the last digit of a confidence may depend on it
    place = signed_file(args.output, signature) if args.output else nullcontext(sys.stdout)
    with place as file:
        for soft in softs:
            links = aligner.links(soft)
            shares = aligner.confidences(soft, links) if args.confidence else None
            print(format_links(links, index=args.index, confidences=shares), file=file)
    if not args.output:
        choices = [f"{key}:{value}" for key, value in signature.items()]
        print("|".join(choices), file=sys.stderr)


def print_table(args: argparse.Namespace) -> None:
    """Prints the tables, of several checkpoints together if several are named."""
    from fairseq_normalign.report.method_table import method_table
    from fairseq_normalign.report.tables import aer_table, write_tables

    tables = {}
    for name, of_one in zip(short_names(args.path), options_of_each(args), strict=True):
        tables[name] = table_of(of_one, name)
    methods = table_methods(args.methods)
    if len(methods) <= WIDE or args.heads:
        print(aer_table(*tables.values()), end="\n\n")
    print(method_table(*tables.values()))
    if args.json:
        write_tables(tables, args.json)
    signature = {"checkpoint": ",".join(tables), **table_signature(args, methods)}
    print("|".join(f"{key}:{value}" for key, value in signature.items()), file=sys.stderr)


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
    from tqdm import tqdm

    from fairseq_normalign.analysis.error_table import error_table, passes
    from fairseq_normalign.analysis.method_cost import SAMPLE, method_costs
    from fairseq_normalign.host.options import corpus, fitted, gold, load

    model = load(args)
    unfitted, total = corpus(args, model.reader)
    (pairs,) = fitted(args, [unfitted], [model.forcing])
    sample = list(islice(pairs, SAMPLE))
    methods = table_methods(args.methods)
    runs = None if total is None else total * len(passes(methods))
    with tqdm(desc=name, total=runs, unit=" pairs", disable=None) as progress:
        table = error_table(
            model,
            chain(sample, pairs),
            gold(args),
            methods,
            options=align_options_of(args),
            heads=args.heads,
            progress=progress.update,
        )
    places = {method: table.choice(method) for method in table.choices}
    costs = method_costs(
        model.forcing, sample, places, batch_tokens=args.max_tokens, title=f"{name}, cost"
    )
    return table._replace(costs=costs)
