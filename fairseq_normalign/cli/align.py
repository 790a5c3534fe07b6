"""``normalign align DATA --path CHECKPOINT``: word alignments of a corpus."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from fairseq_normalign.alignment.evidence import (
    COMBINATIONS,
    FORM,
    AlignOptions,
    parse_evidences,
)
from fairseq_normalign.alignment.signature import refuse_unsignable
from fairseq_normalign.attention.extract import check_extract, extractor
from fairseq_normalign.attention.methods import SHIFT_ATT
from fairseq_normalign.cli import checks, methods, options
from fairseq_normalign.cli.align_run import finish, link_files, tasks
from fairseq_normalign.cli.runs import add_run_options, check_run_options, run_command
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import is_stream
from fairseq_normalign.options import add_flags
from fairseq_normalign.text.link_formats import FROM_1, WITH_SHARES, WRITERS

TABLE = "--all"  # what normalign methods was called before
DESCRIPTION = """Word alignments from a translation Transformer: a Pharaoh line (source-target,
counted from 0) for each sentence pair, in input order. `normalign methods` tells what --method
takes."""
EXAMPLE = (
    "normalign align data-bin --path best.pt --remove-bpe sentencepiece --layer 2 > test.pharaoh"
)


def add_options(parser: ArgumentParser) -> None:
    options.add_corpus_options(parser)
    add_flags(parser, AlignOptions)
    add_combination_options(parser)
    add_output_options(parser)
    add_run_options(parser)


def add_combination_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("combination", "many evidences, of one model or of two")
    group.add_argument(
        "--combine",
        choices=COMBINATIONS,
        help="combine both steps (and directions): see docs/align.md (default: learned with "
        "--reverse-path or links of other aligners, else none)",
    )
    options.add_reverse_options(group, "for --combine and for --method shift-att")
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
    group = parser.add_argument_group("decision")
    group.add_argument(
        "--decision",
        metavar="FILE",
        help="layer, step or learned weights of another run; if there is no such file, what is "
        "decided on the first pairs is kept there",
    )


def add_output_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o", "--output", metavar="FILE", help="write here, and the signature to FILE.json"
    )
    group.add_argument(
        "--index",
        type=int,
        choices=(0, 1),
        help=f"first word in the output (default: 0; 1 with -f {' or '.join(FROM_1)})",
    )
    group.add_argument(
        "-f",
        "--format",
        choices=tuple(WRITERS),
        default="pharaoh",
        help="of the links (default: %(default)s)",
    )
    group.add_argument(
        "--confidence",
        action="store_true",
        help="write each link's share of its row: 0-0:0.930; the last digit may depend on "
        "--max-tokens",
    )


def check(args: Namespace) -> None:
    """Refuses options that do not go together, before anything is loaded."""
    if len(args.path) > 1:
        raise InputError(
            f"--path names {len(args.path)} checkpoints; align takes one (normalign methods takes "
            "several)"
        )
    checks.requires(args, "reverse_path", "reverse_data")
    check_run_options(args)
    if args.output:
        check_signed_output(args)
    check_extract(args.extract or "argmax")
    args.combine = args.combine or default_combination(args)
    check_combination(args)
    check_kept(args)
    if args.index is None:
        args.index = int(args.format in FROM_1)
    args.confidence = args.confidence or args.format in WITH_SHARES
    checks.check_methods(args, args.method)
    if args.user_dir is None:  # another plugin may have methods of its own
        parse_evidences(args.evidence or [])


def check_signed_output(args: Namespace) -> None:
    """Refuses an output that cannot be written in the end, or its signature."""
    files = [file.path for file in link_files(args)]
    for path in (args.output, f"{args.output}.json"):
        checks.check_output(path, *checks.inputs_of(args), *files)
    refuse_unsignable(args.output)


def check_combination(args: Namespace) -> None:
    if args.combine is None:
        checks.requires(args, "combine", "evidence")
    elif args.given & {"layer", "step", "head"}:
        raise InputError(
            "--combine takes both steps; name layers with --evidence, not --layer, --head or --step"
        )
    else:
        extractor(args.extract or "relative")  # a combination has no pieces
    if args.combine != "learned" and args.given & {"learn_pairs", "lexicon"}:
        raise InputError("--learn-pairs and --lexicon need --combine learned")
    for file in link_files(args):
        if not Path(file.path).is_file():
            raise InputError(f"links:{file.path}: no such file")


def check_kept(args: Namespace) -> None:
    """Refuses a place where a lexicon or decision cannot be kept, before anything is learned."""
    for path in filter(None, (args.lexicon, args.decision)):
        if is_stream(path):
            raise InputError(f"{path}: expected a file")
        if args.output:
            checks.check_output(args.output, path)
        if not Path(path).is_file():
            checks.check_output(path, *checks.inputs_of(args))
            if args.output and path in (args.output, f"{args.output}.json"):
                raise InputError(f"{path}: is named for two outputs; expected a name for each")


def default_combination(args: Namespace) -> str | None:
    """Two models, or a model and links of other aligners, are combined."""
    if args.method == SHIFT_ATT or not (args.reverse_path or link_files(args)):
        return None
    return "learned"


parse_links = options.model_command("align", DESCRIPTION, EXAMPLE, add_options, check, several=True)


def parse_args(argv: Sequence[str]) -> Namespace:
    if TABLE not in argv:
        return parse_links(argv)
    args = methods.parse_table([word for word in argv if word != TABLE])
    return Namespace(**vars(args), all=True)


def main(args: Namespace) -> None:
    if getattr(args, "all", False):
        methods.main(args)
    else:
        run_command("align", args, tasks, finish)
