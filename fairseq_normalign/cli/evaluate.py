"""``normalign evaluate MODEL``: models side by side, one row for each."""

from __future__ import annotations

from argparse import Namespace
from functools import partial

from fairseq_normalign.cli import checks, options
from fairseq_normalign.cli.output import OUTPUT, show
from fairseq_normalign.heads.comparison import EvaluateOptions
from fairseq_normalign.options import SEARCH, read_options

DESCRIPTION = """Models side by side, one row for each: heads, parameters, size of the checkpoint,
BLEU and chrF of its translations, AER where gold is given, and speed of generation against the
first model."""
EXAMPLE = """normalign evaluate deen/ a.de a.en
         normalign evaluate deen/ small.pt a.de a.en"""
OPTIONS = f"""
search: as in fairseq-generate
  --beam N = {SEARCH["beam"]}        beam size
  --lenpen X = {SEARCH["lenpen"]}    length penalty
text: a binarised --gen-subset of DATA, or two text files
  --source-file FILE  text to translate
  --target-file FILE  references, compared as they are
  {options.READING.strip()}
gold: for AER by --method, at the layer and step chosen without gold
  --gold-source FILE  source text of the gold pairs, split into words at blanks
  --gold-target FILE  target text of the gold pairs, split into words at blanks
  {options.gold_options("gold links").strip()}
"""


def check(args: Namespace) -> None:
    """Refuses what would fail after all models have translated."""
    checks.requires(args, "source_file", "target_file")
    checks.go_together(args, "gold", "gold_source", "gold_target")
    checks.check_methods(args, args.method)


parse_args = options.model_command(
    "evaluate",
    DESCRIPTION,
    EXAMPLE,
    OPTIONS + OUTPUT,
    check,
    flags=(EvaluateOptions,),
    several=True,
    lenpen=float,
)


def main(args: Namespace) -> None:
    from fairseq_normalign.cli.model import complete
    from fairseq_normalign.heads.evaluation import compare
    from fairseq_normalign.host.options import gold
    from fairseq_normalign.host.pairs import PairReader

    complete(args, SEARCH)
    texts = args.source_file, args.target_file
    corpus = texts if args.source_file else args.gen_subset
    half = "bfloat16" if args.bf16 else "float32"
    how = read_options(
        EvaluateOptions,
        args,
        reader=partial(PairReader.from_args, args=args),
        gold=gold(args) if args.gold else None,
        gold_texts=(args.gold_source, args.gold_target),
        search=vars(args),
        too_long=args.too_long,
        max_tokens=args.max_tokens,
        device=args.device,
        dtype="float16" if args.fp16 else half,
        overrides=args.model_overrides,
    )
    show(compare(args.path, args.data, corpus, how), args)
