"""``normalign prune MODEL -o FILE``: a checkpoint without some of its heads."""

from __future__ import annotations

import random
from argparse import Namespace
from typing import TYPE_CHECKING

from fairseq_normalign.cli import checks, options
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.head_scores import CLOSE_RULES, ranking_scores
from fairseq_normalign.names import KINDS, Head, parse_heads, parse_kinds

if TYPE_CHECKING:
    from fairseq_normalign.heads.pruning import Prunable

DESCRIPTION = """Removes heads from a checkpoint of a translation Transformer: their rows of W_Q,
W_K and W_V and their columns of W_O. The result is an ordinary checkpoint for fairseq's commands
with --user-dir. Without other options, the heads whose gates are closed go (trained with
--gate-heads). SOURCE and TARGET, or a binarised corpus, are for --by SCORE alone."""
EXAMPLE = """normalign prune gated/checkpoint_last.pt -o small.pt
         normalign prune deen/ a.de a.en --keep-top 18 --by norm -o small.pt"""
OWN_RANKS = ("gate", "random")  # that need no corpus


def check(args: Namespace) -> None:
    """Refuses options that do not go together."""
    checks.excludes(args, "keep", "drop", "keep_top")
    checks.excludes(args, "drop", "keep_top")
    checks.go_together(args, "keep_top", "by")
    if args.by in (None, *OWN_RANKS):
        return
    if args.user_dir is None and args.by not in ranking_scores():
        expected = ", ".join((*OWN_RANKS, *ranking_scores()))
        raise InputError(f"--by {args.by}: expected one of: {expected}")
    if args.data is None:
        raise InputError(f"--by {args.by} needs DATA: it is measured on a corpus")


OPTIONS = f"""
pruning:
  -o --output FILE = required  the checkpoint to write
  --close-rule {"|".join(CLOSE_RULES)}  when a gate is closed (default: as the model was trained)
  --by SCORE          gate: log α; random: by --seed; or, on the corpus, what `normalign heads`
                      shows: {", ".join(ranking_scores())}
  --limit N           take the first N sentences of the corpus (default: all)
  --seed K = 1        for --by random
  --attention NAMES = {",".join(KINDS)}
      --keep-top ranks the heads of these attentions, and keeps all others
  --keep HEAD...      keep these heads, as in encoder.1.3 cross.2.1; a pruned model's have the
                      names that they had in the full one
  --drop HEAD...      remove these heads
  --keep-top K        keep the K heads that --by ranks highest
"""


parse_args = options.model_command(
    "prune",
    DESCRIPTION,
    EXAMPLE,
    options.CORPUS + OPTIONS,
    check,
)


def main(args: Namespace) -> None:
    from fairseq_normalign.heads.pruning import Prunable
    from fairseq_normalign.results.text import paragraph

    prunable = Prunable(args.path, args.close_rule)
    kept = heads_to_keep(args, prunable)
    before = prunable.megabytes
    prunable.write(kept, args.output)
    print(paragraph(prunable.heads_table(kept)))
    print(f"{prunable.megabytes:.1f} MB of parameters; before, {before:.1f} MB")


def heads_to_keep(args: Namespace, prunable: Prunable) -> list[Head]:
    if args.keep:
        return parse_heads(" ".join(args.keep), prunable.heads)
    if args.drop:
        dropped = parse_heads(" ".join(args.drop), prunable.heads)
        return [head for head in prunable.heads if head not in dropped]
    if args.by is None:
        return prunable.open_heads()
    kinds = parse_kinds("--attention", args.attention)
    ranks = ranks_of_heads(args, prunable)
    eligible = {head: rank for head, rank in ranks.items() if head.kind in kinds}
    return prunable.top_heads(eligible, args.keep_top)


def ranks_of_heads(args: Namespace, prunable: Prunable) -> dict[Head, float]:
    """What --by says of each head; the bigger, the more it is worth keeping."""
    if args.by == "random":
        generator = random.Random(args.seed)
        return {head: generator.random() for head in prunable.heads}
    if args.by == "gate":
        if not prunable.log_alphas:
            raise InputError(
                f"--by gate: {args.path} has no gates; pass a checkpoint trained with --gate-heads"
            )
        return prunable.log_alphas
    return measured_ranks(args)


def measured_ranks(args: Namespace) -> dict[Head, float]:
    from fairseq_normalign.cli.model import complete
    from fairseq_normalign.heads.head_scores import ProfileOptions
    from fairseq_normalign.heads.profiling import head_ranks
    from fairseq_normalign.host.options import load
    from fairseq_normalign.host.raw_corpus import corpus

    complete(args)
    model = load(args)
    (pairs,) = map(list, corpus(args, [model], limit=args.limit).streams)
    count = len(pairs)
    on_all = ProfileOptions(ablation=count, ablation_bleu=count, max_tokens=args.max_tokens)
    return head_ranks(model, pairs, args.by, on_all)
