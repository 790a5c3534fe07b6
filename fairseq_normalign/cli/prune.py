"""``normalign prune --path CHECKPOINT --out FILE``: a checkpoint without closed, weak or named
heads."""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

from fairseq_normalign.analysis.head_scores import SCORES, head_scores
from fairseq_normalign.analysis.pruning import Prunable
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.gates import CLOSE_RULES
from fairseq_normalign.heads.names import KINDS, Head, all_heads, parse_heads, parse_kinds
from fairseq_normalign.host import options
from fairseq_normalign.report.tables import kept_heads

DESCRIPTION = """Removes heads from a checkpoint of a translation Transformer: their rows of W_Q,
W_K and W_V and their columns of W_O. The result is an ordinary checkpoint for fairseq's commands
with --user-dir. Without other options, the heads whose gates are closed go (trained with
--gate-heads)."""
EXAMPLE = """normalign prune --path gated/checkpoint_last.pt --out small.pt
         normalign prune data-bin --path checkpoint_best.pt --gen-subset valid --keep-top 20 --by
         norm --out small.pt"""


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    plain = argparse.ArgumentParser(
        prog="normalign prune",
        usage="normalign prune [DATA] --path CHECKPOINT --out FILE [options]",
        description=DESCRIPTION,
        epilog=f"Example: {EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plain.add_argument(
        "data", nargs="?", help="dictionaries and corpus, for scores that are measured on one"
    )
    plain.add_argument("--path", metavar="CHECKPOINT", required=True)
    plain.add_argument("--seed", type=int, default=1, help="for --by random (default: %(default)s)")
    add_pruning_options(plain)
    known = plain.parse_known_args(argv)[0]
    if known.by not in SCORES:
        return plain.parse_args(argv)
    if known.data is None:
        raise InputError(
            f"--by {known.by} is measured on a corpus; expected DATA, as in `normalign align`"
        )
    parser = options.get_parser(
        "prune", argv, description=DESCRIPTION, example=EXAMPLE
    )  # scores need a corpus
    options.add_corpus_options(parser)
    add_pruning_options(parser)
    return options.parse_args(parser, argv)


def add_pruning_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("pruning")
    group.add_argument("--out", metavar="FILE", required=True, help="the checkpoint to write")
    group.add_argument(
        "--close-rule",
        choices=CLOSE_RULES,
        help="when a gate is closed (default: as the model was trained)",
    )
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "--keep", metavar="HEADS", help="keep these heads, as in 'encoder.1.3,cross.2.1'"
    )
    which.add_argument("--drop", metavar="HEADS", help="remove these heads")
    which.add_argument(
        "--keep-top", type=int, metavar="N", help="keep the N heads that --by ranks highest"
    )
    group.add_argument(
        "--by",
        choices=("gate", "random", *SCORES),
        help="gate: log α; random: by --seed; others: what `normalign heads` shows, on the "
        "corpus of DATA (as in "
        "`normalign align`)",
    )
    group.add_argument(
        "--kinds",
        default=",".join(KINDS),
        metavar="KINDS",
        help="--keep-top chooses among these, and keeps all others (default: %(default)s)",
    )


def main(args: argparse.Namespace) -> None:
    if (args.keep_top is None) != (args.by is None):
        raise InputError("--keep-top N and --by SCORE go together")
    if not Path(args.out).parent.is_dir():
        raise InputError(f"{args.out}: cannot be written: no such directory")
    prunable = Prunable(args.path, args.close_rule)
    kept = chosen(args, prunable)
    before = prunable.megabytes
    prunable.write(kept, args.out)
    print(kept_heads(kept, prunable.counts))
    print(f"{prunable.megabytes:.1f} MB of parameters; before, {before:.1f} MB")


def chosen(args: argparse.Namespace, prunable: Prunable) -> list[Head]:
    """The heads to keep."""
    if args.keep is not None:
        return parse_heads(args.keep, prunable.counts)
    if args.drop is not None:
        dropped = parse_heads(args.drop, prunable.counts)
        return [head for head in all_heads(prunable.counts) if head not in dropped]
    if args.by is None:
        return prunable.open_heads()
    kinds = parse_kinds("--kinds", args.kinds)
    return prunable.top_heads(
        {head: s for head, s in scores(args, prunable).items() if head.kind in kinds}, args.keep_top
    )


def scores(args: argparse.Namespace, prunable: Prunable) -> dict[Head, float]:
    if args.by == "random":
        generator = random.Random(args.seed)
        return {head: generator.random() for head in all_heads(prunable.counts)}
    if args.by == "gate":
        if not prunable.log_alphas:
            raise InputError(
                f"--by gate: {args.path} has no gates; expected a checkpoint trained with "
                "--gate-heads"
            )
        return prunable.log_alphas
    forcing, reader = options.load(args)
    return head_scores(forcing, options.pairs(args, reader), args.by, max_tokens=args.max_tokens)
