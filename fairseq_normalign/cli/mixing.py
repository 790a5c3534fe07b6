"""``normalign mixing MODEL``: how much context attention blocks mix in."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping

from fairseq_normalign.cli import options
from fairseq_normalign.cli.blocks import (
    BLOCKS,
    block_tasks,
    check_block_options,
    show_blocks,
)
from fairseq_normalign.cli.output import OUTPUT
from fairseq_normalign.cli.runs import run_command
from fairseq_normalign.errors import InputError
from fairseq_normalign.names import ANALYSES, LAYER_ANALYSES, SCOPES
from fairseq_normalign.runs.measure import Made, Plan

DESCRIPTION = """How much of what an attention block hands on is context, and how much is the token
itself: the mixing ratio of Kobayashi et al. (2021) by layer and category of tokens, for
self-attention of encoder and decoder and for source–target attention, and its rank correlation
with frequency. Several checkpoints of one architecture give mean ± deviation."""
EXAMPLE = "normalign mixing deen/ a.de a.en --plot mixing.png"
OPTIONS = f"""
output:
  --scope --analyses NAME... = ATTNRESLN-N
      whose ratios are shown by layer and category: {", ".join(ANALYSES)}, or all of these; or, by
      what is looked at, from the attention alone to the whole layer with its feed-forward net:
      {", ".join(SCOPES)}; those from ff on are also measured for whole layers, which takes longer
  --average macro|micro = macro
      of the ratios by layer and category (macro: over a sentence, then over sentences; micro: over
      all tokens)
"""


def check(args: Namespace) -> None:
    check_block_options(args)
    args.mixing, args.statistics = True, False
    names = list(ANALYSES) if args.scope == ["all"] else args.scope
    known = {name: name for name in (*ANALYSES, *LAYER_ANALYSES)} | SCOPES
    args.scope = []
    for name in names:
        analysis = known.get(name) or known.get(name.upper())
        if analysis is None:
            raise InputError(f"--scope {name}: choose from {', '.join(known)}, or all")
        args.scope.append(analysis)
    args.layers = not set(args.scope) <= set(ANALYSES)


parse_args = options.model_command(
    "mixing",
    DESCRIPTION,
    EXAMPLE,
    BLOCKS + OUTPUT + OPTIONS,
    check,
    flags=(Plan,),
    several=True,
)


def main(args: Namespace) -> None:
    run_command("mixing", args, block_tasks, finish)


def finish(args: Namespace, made: Mapping[str, Made]) -> None:
    """Writes and prints what came out."""
    from fairseq_normalign.layers.mixing import MixingResult

    def result_of(survey, signature):
        return MixingResult(survey.mixing, signature, args.scope, args.average)

    show_blocks(args, made, result_of, average=args.average)
