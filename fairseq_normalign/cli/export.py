"""``normalign export DATA --path CHECKPOINT -o FILE.npz``: weights, norms or vectors of a corpus,
as arrays."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from fairseq_normalign.analysis.arrays import SIDES, Arrays
from fairseq_normalign.errors import InputError
from fairseq_normalign.host import options
from fairseq_normalign.host.batches import numbered_batches
from fairseq_normalign.host.pairs import Pair, PairReader
from fairseq_normalign.norms.quantities import QUANTITIES
from fairseq_normalign.report.export import OVERHEAD, create_export
from fairseq_normalign.version import __version__

EXAMPLE = (
    "normalign export data-bin --path checkpoint_best.pt --quantity norms --layer 2 -o norms.npz"
)
WINDOW = 500  # pairs sorted by length at a time: few, so that progress can be seen


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = options.get_parser(
        "export",
        argv,
        description="Writes for each sentence pair an array over its pieces and marks such as "
        "</s>, with tokens and\n"
        "metadata; read it with fairseq_normalign.open_export or numpy.load. Encoder attention "
        "needs no target.",
        example=EXAMPLE,
    )
    options.add_corpus_options(parser)
    add_export_options(parser)
    return options.parse_args(parser, argv)


def add_export_options(parser: argparse.ArgumentParser) -> None:
    formulas = ", ".join(f"{name} {quantity.formula}" for name, quantity in QUANTITIES.items())
    group = parser.add_argument_group("export")
    group.add_argument(
        "-o", "--output", metavar="FILE.npz", required=True, help="the file to write"
    )
    group.add_argument(
        "--attention", choices=SIDES, default="cross", help="which one (default: %(default)s)"
    )
    group.add_argument(
        "--quantity", choices=QUANTITIES, default="norms", help=f"{formulas} (default: %(default)s)"
    )
    group.add_argument(
        "--layer", type=int, nargs="+", metavar="N", help="layers, from 1 (default: all)"
    )
    group.add_argument(
        "--head",
        type=int,
        nargs="+",
        metavar="N",
        help="heads to take or to sum over, from 1 (default: all)",
    )
    group.add_argument(
        "--dtype", choices=("float32", "float16"), default="float32", help="(default: %(default)s)"
    )
    group.add_argument(
        "--max-gigabytes",
        type=float,
        default=10,
        metavar="N",
        help="refuse to write a file larger than this (default: %(default)s)",
    )


def main(args: argparse.Namespace) -> None:
    forcing, reader = options.load(args, attention=args.attention)
    arrays = Arrays(forcing, args.quantity, layers=args.layer, heads=args.head, dtype=args.dtype)
    pairs = partial(options.pairs, args, reader, need_target=args.attention != "encoder")
    count, gigabytes = size(pairs(), arrays)
    print(f"{count} sentences, {gigabytes:.3g} GB", file=sys.stderr)
    if gigabytes > args.max_gigabytes:
        raise InputError(
            f"{args.output} would have {gigabytes:.3g} GB, more than --max-gigabytes "
            f"{args.max_gigabytes:g}; choose "
            "some of --layer and --head, a smaller --quantity, or --dtype float16"
        )
    write(args, arrays, reader, pairs, count)


def size(pairs: Iterable[Pair], arrays: Arrays) -> tuple[int, float]:
    """Sentences and gigabytes of an export. Reads the corpus once more: cheap beside running the
    model."""
    count = total = 0
    for pair in pairs:
        count += 1
        total += math.prod(arrays.shape(pair)) * arrays.dtype.itemsize + OVERHEAD
    return count, total / 1e9


def write(
    args: argparse.Namespace,
    arrays: Arrays,
    reader: PairReader,
    pairs: Callable[[], Iterable[Pair]],
    count: int,
) -> None:
    metadata = {**arrays.description(), "checkpoint": Path(args.path).name, "version": __version__}
    with create_export(args.output, metadata) as export:
        for batch in numbered_batches(pairs(), max_tokens=args.max_tokens, window=WINDOW):
            for (place, pair), array in zip(
                batch, arrays([pair for _, pair in batch]), strict=True
            ):
                export.add(place, array, *arrays.tokens(pair, reader))
        if export.sentences != count:
            raise InputError(
                f"the corpus had {count} sentences, then {export.sentences}; expected files that "
                "can be read twice"
            )
