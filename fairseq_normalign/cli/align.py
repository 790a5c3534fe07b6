"""``normalign align MODEL SOURCE TARGET``: word alignments of a corpus."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from fairseq_normalign.alignment.evidence import (
    AUTO,
    COMBINATIONS,
    FORM,
    LEARNED,
    NONE,
    AlignOptions,
    combination_of,
    parse_evidences,
)
from fairseq_normalign.attention.extract import check_extract, extractor
from fairseq_normalign.cli import checks, options
from fairseq_normalign.cli.align_run import align_without_model, finish, link_files, tasks
from fairseq_normalign.cli.runs import check_run_options, run_command
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import is_stream, refuse_unwritable
from fairseq_normalign.runs.measure import Plan
from fairseq_normalign.text.link_formats import FROM_1, WITH_SHARES, WRITERS

BITEXT = "bitext"  # the method that needs no model
DESCRIPTION = """Word alignments from a translation Transformer: a Pharaoh line (source-target,
counted from 0) for each sentence pair, in input order. With 100 pairs or more, weights of all
layers and heads are learned from the text, without gold; a model of the other direction (-r) makes
the links better. `normalign methods` lists what --method takes."""
EXAMPLE = """normalign align deen/ test.de test.en -r ende/ -o test.links
         normalign align deen/ test.de test.en --method weights --layer 2 > test.links"""


COMBINATION = f"""
combination: of all layers, heads and steps, of one model or of two
  --combine {"|".join(COMBINATIONS)}|none = auto
      how layers, steps and models are combined. auto: learned on 100 pairs or more, else product;
      none: one layer and step, as with --layer, --head or --step
  --evidence E...       {FORM} (default: chosen without gold)
  --learn-pairs N       how many of the first pairs the lexicon of learned is counted in (default:
                        2000)
  --bitext FILE...      translated text to learn from: SOURCE TARGET, or one file of ' ||| ' lines,
                        also .gz; a corpus of 20,000 pairs or more counts without it
  --learned FILE        use the layers, weights and lexicon of this file; if it does not exist,
                        write it
{options.reverse_options("for better links, and for --method shift-att")}"""
INTERACTIVE = """
output:
  --interactive         answer each line 'source ||| target' of stdin at once; needs --learned FILE
"""
OUTPUT = f"""
output:
  -o --output FILE      write here, and the signature to FILE.json
  --index 0|1           first word in the output (default: 0; 1 with -f {" or ".join(FROM_1)})
  -f --format {"|".join(WRITERS)} = pharaoh  format of the links
  --never-empty         a pair without links gets the best one, for tools that drop empty lines
  --confidence          write each link's probability, or without learned weights its share of its
                        row: 0-0:0.930; the last digit may depend on --max-tokens
"""
WITHOUT_MODEL = """
TEXT...           SOURCE TARGET, or one file
--method bitext   the method that needs no MODEL
--extract NAME = relative:0.75  how links are taken
--bitext FILE...  translated text to learn from, as TEXT, also .gz
"""


def refuse_gold(parser: ArgumentParser) -> None:
    """Says where gold is an option."""
    parser.add_argument("--gold", type=_elsewhere, help=SUPPRESS)


def _elsewhere(path: str) -> str:
    raise ArgumentTypeError(
        f"align writes links; their error rates: normalign aer {path} LINKS; those of all methods: "
        f"normalign methods MODEL SOURCE TARGET --gold {path}"
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
    files = [str(file.path) for file in link_files(args)]
    checks.check_signed_output(args.output, *checks.inputs_of(args), *files, args.learned)
    check_extract(args.extract or "argmax")
    checks.check_methods(args, args.method)
    check_combination(args)
    check_learned(args)
    if args.interactive:
        check_interactive(args)
    settle_format(args)
    if args.user_dir is None:  # another plugin may have methods of its own
        parse_evidences(args.evidence)


def settle_format(args: Namespace) -> None:
    """Sets what the format of the output says of index and shares."""
    if args.index is None:
        args.index = int(args.format in FROM_1)
    args.confidence = args.confidence or args.format in WITH_SHARES


def check_combination(args: Namespace) -> None:
    """Settles how evidences are combined; refuses what does not go together."""
    args.combine = combination_of(args.combine, args, args.reverse_path, args.evidence)
    if args.combine != NONE:
        extractor(args.extract or "relative")  # a combination has no pieces
    if args.learn_pairs and args.combine not in (AUTO, LEARNED):
        raise InputError("--learn-pairs needs --combine learned")
    if args.bitext:
        if args.combine not in (AUTO, LEARNED):
            raise InputError("--bitext needs --combine learned")
        check_bitext(args)
    for file in link_files(args):
        if not Path(file.path).is_file():
            raise InputError(f"links:{file.path}: no such file")


def check_bitext(args: Namespace) -> None:
    if len(args.bitext) > 2:
        raise InputError(
            f"--bitext takes SOURCE TARGET, or one file of ' ||| ' lines, not {len(args.bitext)} "
            "files; name the corpus before --bitext"
        )


def check_learned(args: Namespace) -> None:
    """Refuses a place where nothing can be kept, before anything is learned."""
    if args.learned is None:
        return
    checks.excludes(args, "learned", "layer", "step", "head")
    if is_stream(args.learned):
        raise InputError(f"--learned {args.learned}: not a file")
    if not Path(args.learned).is_file():
        refuse_unwritable(args.learned, *checks.inputs_of(args))


def check_interactive(args: Namespace) -> None:
    """Settles that pairs come and go one by one; refuses what needs more of them."""
    checks.excludes(args, "interactive", "output", "workers", "engine", "chunk", "evidence")
    checks.requires(args, "learned", "interactive", value="FILE")
    args.source_file = args.source_file or "-"
    args.chunk = 1


parse_links = options.model_command(
    "align",
    DESCRIPTION,
    EXAMPLE,
    options.CORPUS + COMBINATION + INTERACTIVE + OUTPUT,
    check,
    flags=(AlignOptions, Plan),
    more=refuse_gold,
    several=True,
)


def check_without_model(args: Namespace) -> None:
    if len(args.text) > 2 or "-" in args.text:
        raise InputError(
            "--method bitext uses no model: it takes SOURCE TARGET, or one file of ' ||| ' lines"
        )
    check_bitext(args)
    extractor(args.extract)
    checks.check_signed_output(args.output, *args.text, *args.bitext)
    settle_format(args)


parse_without_model = options.command(
    "align",
    "Word alignments by the words of the text alone, without a model: a hidden Markov model.",
    "normalign align --method bitext test.de test.en --bitext train.de train.en -o test.links",
    WITHOUT_MODEL + OUTPUT,
    check_without_model,
)


def parse_args(argv: Sequence[str]) -> Namespace:
    if f"--method={BITEXT}" in argv or ("--method", BITEXT) in pairwise(argv):
        return parse_without_model(argv)
    return parse_links(argv)


def main(args: Namespace) -> None:
    if args.method == BITEXT:
        align_without_model(args)
    else:
        run_command("align", args, tasks, finish)
