"""``normalign order-heads MODEL -o DIR``: the same model, the best aligning heads first."""

from __future__ import annotations

import json
from argparse import Namespace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_normalign.attention.soft import STEPS
from fairseq_normalign.cli import checks, options
from fairseq_normalign.host.model_files import dictionaries
from fairseq_normalign.names import as_lists

if TYPE_CHECKING:
    from fairseq_normalign.heads.ordering import LayerOrder
    from fairseq_normalign.huggingface.converted import Files

DESCRIPTION = """Write a model that translates as MODEL does, with the best aligning heads of each
decoder layer first, and alignment_layer and alignment_heads set: CTranslate2, fairseq and others
take alignments from the first heads of a layer. Heads are ranked on the corpus, without gold or by
the AER of their attention weights (--gold)."""
EXAMPLE = "normalign order-heads deen/ valid.de valid.en -o ordered/"
OPTIONS = f"""
ranking:
  --limit N = 500      take the first N sentences of the corpus
  --step {"|".join(STEPS)} = output
      rank by the decoder row that predicts a word, as engines return it, or by the next one, which
      reads the word: better, but you must move the engine's rows by one
  -o --output DIR = required
      a new folder: model.pt, dictionaries and what splits text into pieces
{options.gold_options("rank by the AER against these links")}"""


def check(args: Namespace) -> None:
    checks.requires(args, "gold", "gold_index", "reverse_gold", value="FILE")
    args.folder, args.output = args.output, None  # no file


parse_args = options.model_command(
    "order-heads", DESCRIPTION, EXAMPLE, options.CORPUS + OPTIONS, check
)


def main(args: Namespace) -> None:
    from fairseq_normalign.cli.model import complete
    from fairseq_normalign.heads.ordering import best_order, write_ordered
    from fairseq_normalign.huggingface.conversion import refuse_used, whole_folder
    from fairseq_normalign.huggingface.converted import MODEL

    refuse_used(args.folder)
    complete(args)
    orders = measured(args)
    with whole_folder(args.folder, files_of(args)) as part:
        write_ordered(args.path, orders, str(part / MODEL))
    show(orders, by="AER" if args.gold else "gain")
    best = best_order(orders)
    print(f"alignment_layer {best.layer}, alignment_heads {len(best.best)} (counted from 0)")
    print(f"in {args.path}: {json.dumps(as_lists(best.best))}")


def measured(args: Namespace) -> list[LayerOrder]:
    """The order of the heads by what they do on the corpus."""
    from fairseq_normalign.heads.ordering import layer_orders
    from fairseq_normalign.host.options import gold, load
    from fairseq_normalign.host.raw_corpus import corpus
    from fairseq_normalign.text.links import InMemory, read_together

    model = load(args)
    (stream,) = corpus(args, [model], limit=args.limit).streams
    texts = [InMemory("the corpus", list(stream))]
    if args.gold:
        texts.append(InMemory(args.gold, list(islice(gold(args), args.limit))))
    rows = [row for row in read_together(*texts) if not row[0].skipped]
    pairs, *golds = zip(*rows, strict=True)
    how = {"step": args.step, "max_tokens": args.max_tokens}
    return layer_orders(model, pairs, golds[0] if golds else None, **how)


def files_of(args: Namespace) -> Files:
    """What a folder needs beside the checkpoint to be a MODEL."""
    from fairseq_normalign.host.options import PIECE_FILES
    from fairseq_normalign.host.segmentation import READING

    data = Path(args.data.split(":")[0])
    named = [Path(path) for path in checks.named_files(args, PIECE_FILES)]
    paths = [*dictionaries(data), *data.glob(READING), *named]
    return {path.name: path.read_bytes() for path in paths}


def show(orders: list[LayerOrder], by: str) -> None:
    """The heads of each layer by the names that they had, and how well the first of them align."""
    from fairseq_normalign.results.blocks import Cell, Table
    from fairseq_normalign.results.text import paragraph

    rows: list[list[Cell]] = []
    for order in orders:
        for count, (head, score) in enumerate(zip(order.heads, order.scores, strict=True), 1):
            rows.append(
                [order.layer + 1, count, str(head), 100 * (1 - score) if by == "AER" else score]
            )
    title = "Heads by the links of their weights, and of the mean of the first ones"
    print(paragraph(Table(["layer", "place", "head", f"{by} of the first"], rows, title, 3)))
