"""``normalign align DATA --path CHECKPOINT``: word alignments of a corpus, or a table of all ways
to get them."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain, islice, product

from fairseq_normalign.alignment import doctor
from fairseq_normalign.alignment.aer import Counts, count, percent, write_signature
from fairseq_normalign.alignment.extract import EXTRACTORS, MERGES, confidences, extractor
from fairseq_normalign.alignment.links import InMemory, format_links, read_together
from fairseq_normalign.alignment.soft import EOS, STEPS, Evidence
from fairseq_normalign.analysis.aligner import AUTO, NormAligner
from fairseq_normalign.analysis.combined import COMBINATIONS, CombinedAligner, parse_evidence
from fairseq_normalign.analysis.layer_choice import SAMPLE, Choice, choose_layers, decisive_pairs
from fairseq_normalign.analysis.methods import LRP, METHODS
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import whole_file
from fairseq_normalign.host import options
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.report.tables import aer_table

EXAMPLE = (
    "normalign align data-bin --path best.pt --remove-bpe sentencepiece --layer 2 > test.pharaoh"
)


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = options.get_parser(
        "align",
        argv,
        description="Word alignments from a translation Transformer's source–target attention: a "
        "Pharaoh line\n"
        "(source-target, counted from 0) for each sentence pair, in input order.",
        example=EXAMPLE,
    )
    options.add_corpus_options(parser)
    add_alignment_options(parser)
    add_combination_options(parser)
    add_output_options(parser)
    return check(options.parse_args(parser, argv))


def add_alignment_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("alignment")
    group.add_argument(
        "--method",
        choices=(*METHODS, *LRP),
        default="norms",
        help="what is compared; lrp…: relevance through all layers, three sets of rules; slow "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--layer",
        default="auto",
        metavar="N",
        help="decoder layer, from 1, or auto (default: auto)",
    )
    group.add_argument(
        "--head", type=int, metavar="N", help="one head of the layer, from 1 (default: all)"
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
        help=f"how links are chosen: {', '.join(EXTRACTORS)}; threshold:0.3 and relative:0.6 "
        "take a number "
        "(default: argmax; relative with --combine)",
    )
    for side, default in (("source", "sum"), ("target", "mean")):
        group.add_argument(
            f"--{side}-merge",
            choices=MERGES,
            default=default,
            help=f"{side} pieces to words (default: {default})",
        )


def add_combination_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "combination", "many evidences at once, of one model or of two"
    )
    group.add_argument(
        "--combine",
        choices=COMBINATIONS,
        help="combine both steps (and directions): see the README",
    )
    group.add_argument(
        "--reverse-path", metavar="CHECKPOINT", help="the model of the other direction"
    )
    group.add_argument(
        "--evidence",
        nargs="+",
        metavar="E",
        help="[reverse:]METHOD.LAYER[.HEAD].STEP[*WEIGHT] (default: chosen without gold)",
    )


def add_output_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o", "--output", metavar="FILE", help="write here, and the signature to FILE.json"
    )
    group.add_argument(
        "--index", type=int, choices=(0, 1), default=0, help="first word in the output (default: 0)"
    )
    group.add_argument(
        "--confidence", action="store_true", help="write each link's share of its row: 0-0:0.93"
    )
    group.add_argument(
        "--all", action="store_true", help="print a table of AERs instead: layers × methods × steps"
    )
    group.add_argument("--heads", action="store_true", help="with --all: a row for each head too")
    options.add_gold_options(group, "with --all: gold links")
    group.add_argument(
        "--json", metavar="FILE", help="with --all: write the table here as JSON too"
    )


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Refuses options that do not go together, before anything is loaded."""
    if args.all != (args.gold is not None):
        raise InputError(
            "--all and --gold FILE go together; to score one alignment, use normalign aer"
        )
    if (args.heads or args.json) and not args.all:
        raise InputError("--heads and --json belong to the table of --all")
    if args.all and args.output:
        raise InputError(
            "--all prints a table and writes no --output; name a file for it with --json"
        )
    if args.combine is None:
        given = [
            f"--{name.replace('_', '-')}"
            for name in ("reverse_path", "evidence")
            if getattr(args, name)
        ]
        if given:
            raise InputError(
                f"{given[0]} needs --combine, which says how: {', '.join(COMBINATIONS)}"
            )
    elif args.method in LRP:
        raise InputError(
            f"--combine is for the evidence of attention: {', '.join(METHODS)}; not --method "
            f"{args.method}"
        )
    elif args.all or (args.layer, args.step, args.head) != (AUTO, AUTO, None):
        raise InputError(
            "--combine takes both steps; name layers with --evidence, not --layer, --head, "
            "--step or --all"
        )
    args.evidence = [parse_evidence(text) for text in args.evidence] if args.evidence else None
    extractor(args.extract or "argmax")
    return args


def main(args: argparse.Namespace) -> None:
    aligner = load_aligner(args)
    pairs = options.pairs(args, aligner.reader)
    if args.all:
        print_table(args, aligner, pairs)
    elif args.combine is None:
        evidence, pairs = aligner.evidence(pairs, batch_tokens=args.max_tokens)
        softs = (
            soft
            for (soft,) in aligner.evidences_many(pairs, [evidence], batch_tokens=args.max_tokens)
        )
        null = args.eos == "null"
        found = (
            (links, confidences(soft.words, links, null=soft.null if null else None))
            for links, soft in with_links(aligner, softs)
        )
        write_alignment(args, found, partial(signature_of, args, evidence))
    else:
        combined = load_combined(args, aligner)
        streams = [
            pairs,
            *(options.pairs(args, other.reader, reverse=True) for other in combined.aligners[1:]),
        ]
        softs = combined.soft_many(streams, batch_tokens=args.max_tokens)
        found = ((links, confidences(soft, links)) for links, soft in with_links(combined, softs))
        write_alignment(args, found, partial(combined_signature, args, combined))


def with_links(aligner, softs: Iterable) -> Iterator[tuple]:
    return ((aligner.links(soft), soft) for soft in softs)


def load_aligner(args: argparse.Namespace, *, reverse: bool = False) -> NormAligner:
    names = ("method", "layer", "head", "step", "eos")
    merges = {"source_merge": args.source_merge, "target_merge": args.target_merge}
    forcing, reader = options.load(args, reverse=reverse, **merges)
    chosen = {name: getattr(args, name) for name in names}
    return NormAligner(forcing, reader, extract=args.extract or "argmax", **chosen)


def load_combined(args: argparse.Namespace, aligner: NormAligner) -> CombinedAligner:
    backward = load_aligner(args, reverse=True) if args.reverse_path else None
    return CombinedAligner(
        aligner, backward, combine=args.combine, evidences=args.evidence, extract=args.extract
    )


def write_alignment(
    args: argparse.Namespace, found: Iterable[tuple], signature: Callable[[], dict]
) -> None:
    """Writes links (and confidences), then the signature, beside the output or to stderr."""
    with whole_file(args.output) if args.output else nullcontext(sys.stdout) as file:
        for links, shares in found:
            print(
                format_links(
                    links, index=args.index, confidences=shares if args.confidence else None
                ),
                file=file,
            )
    if args.output:
        write_signature(args.output, signature())
    else:
        print("|".join(f"{key}:{value}" for key, value in signature().items()), file=sys.stderr)


def signature_of(args: argparse.Namespace, evidence: Evidence) -> dict:
    """Every choice that moves AER."""
    return {
        "method": evidence.method,
        "layer": "all"
        if evidence.method in LRP
        else f"{'auto:' if args.layer == AUTO else ''}{evidence.layer + 1}",
        "head": "all" if evidence.head is None else evidence.head + 1,
        "step": ("auto:" if args.step == AUTO and evidence.method not in LRP else "")
        + evidence.step,
        "eos": args.eos,
        "merge": f"{args.source_merge}+{args.target_merge}",
        "extract": args.extract or "argmax",
    }


def combined_signature(args: argparse.Namespace, combined: CombinedAligner) -> dict:
    return {
        "method": args.method,
        "combine": args.combine,
        "directions": len(combined.aligners),
        "evidences": len(combined.evidences),
        "chosen": "by-hand" if args.evidence else "without-gold",
        "eos": args.eos,
        "merge": f"{args.source_merge}+{args.target_merge}",
        "extract": combined.extract,
    }


def print_table(args: argparse.Namespace, aligner: NormAligner, pairs: Iterable[Pair]) -> None:
    pairs = iter(pairs)
    first = list(islice(pairs, SAMPLE))
    decisive = decisive_pairs(first, aligner.reader, aligner.forcing)
    null, batch = args.eos == "null", args.max_tokens
    choices = {
        m: choose_layers(aligner.forcing, decisive, m, null=null, batch_tokens=batch)
        for m in METHODS
    }
    heads = [None, *range(aligner.forcing.heads)] if args.heads else [None]
    evidences = [
        Evidence(method, layer, step, head)
        for layer, head, step, method in product(
            range(aligner.forcing.layers), heads, STEPS, METHODS
        )
    ]
    totals = [Counts()] * len(evidences)
    likely = evidences.index(
        Evidence("norms", choices["norms"].layers[choices["norms"].step], choices["norms"].step)
    )
    sample = []  # links and gold to be looked at by the doctor
    softs = aligner.evidences_many(chain(first, pairs), evidences, batch_tokens=args.max_tokens)
    for gold, row in read_together(options.gold(args), InMemory("the corpus", softs)):
        links = [set(aligner.links(soft)) for soft in row]
        totals = [total + count(found, gold) for total, found in zip(totals, links, strict=True)]
        if len(sample) < SAMPLE:
            sample.append((links[likely], gold))
    warn(args, sample)
    scores = dict(zip(evidences, totals, strict=True))
    print(aer_table(scores, choices))
    if args.json:
        with whole_file(args.json) as file:
            json.dump(as_json(scores, choices), file, indent=1)


def warn(args: argparse.Namespace, sample: list[tuple]) -> None:
    """Says if the gold looks misread: other index base, other direction."""
    if sample:
        for advice in doctor.examine(
            *zip(*sample, strict=True), doctor.Conventions(args.gold_index, 0, args.reverse_gold)
        ):
            warnings.warn(
                advice.replace("--ref-", "--gold-").replace("--reverse-hyp", "--reverse-gold"),
                stacklevel=2,
            )


def as_json(scores: dict[Evidence, Counts], choices: dict[str, Choice]) -> list[dict]:
    return [
        {
            "method": evidence.method,
            "layer": evidence.layer + 1,
            "head": None if evidence.head is None else evidence.head + 1,
            "step": evidence.step,
            "chosen_without_gold": evidence.head is None
            and choices[evidence.method].layers[evidence.step] == evidence.layer,
            "better_step_without_gold": choices[evidence.method].step == evidence.step,
            "aer": percent(counts.aer),
            "precision": percent(counts.precision),
            "recall": percent(counts.recall),
            "links": counts.links,
        }
        for evidence, counts in scores.items()
    ]
