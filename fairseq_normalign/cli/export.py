"""``normalign export DATA --path CHECKPOINT -o FILE.npz``: weights, norms or vectors as arrays."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_normalign.attention.quantities import QUANTITIES, SOURCE_SHARE
from fairseq_normalign.cli import options
from fairseq_normalign.cli.kept import add_restart_option, check_restart, kept_sums
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import is_stream, name_of
from fairseq_normalign.names import KINDS
from fairseq_normalign.progress import bar
from fairseq_normalign.version import __version__

if TYPE_CHECKING:
    from fairseq_normalign.attention.arrays import Arrays
    from fairseq_normalign.host.teacher_forcing import TeacherForcing
    from fairseq_normalign.runs.sums import SumsFolder

DESCRIPTION = """Writes for each sentence pair an array over its pieces and marks such as </s>, with
tokens and metadata; read it with fairseq_normalign.open_export or numpy.load. Encoder attention
needs no target."""
EXAMPLE = "normalign export data-bin --path best.pt --quantity norms --layer 2 -o norms.npz"


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = options.model_parser("export", description=DESCRIPTION, example=EXAMPLE)
    return options.parse(parser, argv, add_options, check)


def check(args: argparse.Namespace) -> None:
    """Refuses texts that cannot be read twice, for the size of the file and for its arrays."""
    check_restart(args)
    for path in (args.source_file, args.target_file, args.hypotheses):
        if path is not None and is_stream(path):
            raise InputError(f"{name_of(path)}: can be read only once; expected a file")
    if args.quantity == SOURCE_SHARE and (args.attention != "cross" or args.head):
        raise InputError(
            f"--quantity {SOURCE_SHARE} is of whole decoder layers; expected no --head with it, "
            "and no --attention but cross"
        )


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_corpus_options(parser)
    formulas = ", ".join(f"{name} {quantity.formula}" for name, quantity in QUANTITIES.items())
    group = parser.add_argument_group("export")
    group.add_argument(
        "-o", "--output", metavar="FILE.npz", required=True, help="the file to write"
    )
    group.add_argument(
        "--attention",
        choices=tuple(KINDS),
        default="cross",
        help="which one (default: %(default)s)",
    )
    group.add_argument(
        "--quantity",
        choices=(*QUANTITIES, SOURCE_SHARE),
        default="norms",
        help=f"{formulas}, {SOURCE_SHARE} the share of the source in decoder states by ALTI+, "
        "through all layers (default: %(default)s)",
    )
    group.add_argument(
        "--layer",
        type=options.positive,
        nargs="+",
        metavar="N",
        help="layers, from 1 (default: all)",
    )
    group.add_argument(
        "--head",
        type=options.positive,
        nargs="+",
        metavar="N",
        help="heads to take or to sum over, from 1; a pruned model's have the numbers that they "
        "had in the full one (default: all)",
    )
    group.add_argument(
        "--dtype",
        choices=("float32", "float16"),
        default="float32",
        help="(default: %(default)s)",
    )
    group.add_argument(
        "--max-gigabytes",
        type=options.gigabytes,
        default=10,
        metavar="N",
        help="refuse to write a file larger than this (default: %(default)s)",
    )
    add_restart_option(group)


def main(args: argparse.Namespace) -> None:
    with kept_sums(args, "export") as folder:
        export(args, folder)


def export(args: argparse.Namespace, folder: SumsFolder | None) -> None:
    """Writes the file; what is finished of it is kept in a folder meanwhile."""
    from fairseq_normalign.attention.arrays import size
    from fairseq_normalign.host.options import complete, corpus, fitted, load
    from fairseq_normalign.report.arrays import SUMS, write_arrays
    from fairseq_normalign.runs.sums import Sums

    complete(args)
    model = load(args, attention=args.attention)
    arrays = arrays_of(args, model.forcing)

    need_target = "target" in model.forcing.sides

    def pairs():
        unfitted = corpus(args, model.reader, need_target=need_target).pairs
        return fitted(args, [unfitted], [model.forcing])[0]

    count, gigabytes = size(pairs(), arrays)
    print(f"{count} sentences, {gigabytes:.3g} GB", file=sys.stderr)
    if gigabytes > args.max_gigabytes:
        raise InputError(
            f"{args.output} would have {gigabytes:.3g} GB, more than --max-gigabytes "
            f"{args.max_gigabytes:g}; choose some of --layer and --head, a smaller --quantity, or "
            "--dtype float16"
        )
    metadata = {"checkpoint": Path(args.path).name, "version": __version__}
    with bar("arrays", total=count - Sums(folder).before(SUMS)) as shown:
        write_arrays(
            args.output,
            arrays,
            pairs(),
            model.reader,
            metadata,
            count=count,
            max_tokens=args.max_tokens,
            progress=shown.update,
            folder=folder,
        )


def arrays_of(args: argparse.Namespace, forcing: TeacherForcing) -> Arrays:
    """What is exported of each pair."""
    from fairseq_normalign.attention.arrays import Arrays
    from fairseq_normalign.attention.share_arrays import SourceShares

    if args.quantity == SOURCE_SHARE:
        return SourceShares(forcing, layers=args.layer, dtype=args.dtype)
    return Arrays(forcing, args.quantity, layers=args.layer, heads=args.head, dtype=args.dtype)
