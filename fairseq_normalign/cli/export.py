"""``normalign export MODEL -o FILE.npz``: weights, norms or vectors as arrays."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_normalign.attention.quantities import QUANTITIES, SOURCE_SHARE
from fairseq_normalign.cli import checks, options, shell
from fairseq_normalign.cli.runs import (
    Task,
    check_run_options,
    corpus_of,
    open_corpus,
    reading_task,
    run_command,
)
from fairseq_normalign.errors import InputError
from fairseq_normalign.names import KINDS
from fairseq_normalign.runs.chunks import cut
from fairseq_normalign.runs.folder import RunFolder
from fairseq_normalign.runs.measure import Made, Plan, prepared_job
from fairseq_normalign.version import __version__

if TYPE_CHECKING:
    from fairseq_normalign.attention.arrays import Arrays
    from fairseq_normalign.host.teacher_forcing import TeacherForcing

DESCRIPTION = """Writes for each sentence pair an array over its pieces and marks such as </s>, with
tokens and metadata; read it with fairseq_normalign.open_export or numpy.load. Encoder attention
needs no target."""
FORMULAS = ", ".join(f"{name} {quantity.formula}" for name, quantity in QUANTITIES.items())
OPTIONS = f"""
export:
  -o --output FILE.npz = required  the file to write
  --attention {"|".join(KINDS)} = cross  kind of attention
  --quantity {"|".join(QUANTITIES)}|{SOURCE_SHARE} = norms
      {FORMULAS}, {SOURCE_SHARE} the share of the source in decoder states by ALTI+, through all
      layers
  --layer N...           layers, from 1 (default: all)
  --head N...            heads to take or to sum over, from 1; a pruned model's have the numbers
                         that they had in the full one (default: all)
  --dtype float32|float16 = float32  of the numbers
  --max-gigabytes N = 10  refuse to write a file larger than this
"""
READ = 1000  # pairs that are read together
CHUNK_GIGABYTES = 0.1  # that are held in memory
EXAMPLE = "normalign export deen/ a.de a.en --quantity norms --layer 2 -o norms.npz"


def check(args: Namespace) -> None:
    """Refuses texts that cannot be read twice, for the size of the file and for its arrays."""
    check_run_options(args)
    checks.refuse_streams(args.source_file, args.target_file, args.hypotheses)
    if args.quantity == SOURCE_SHARE and (args.attention != "cross" or args.head):
        raise InputError(
            f"--quantity {SOURCE_SHARE} is of whole decoder layers; it takes no --head, and "
            "no --attention but cross"
        )


parse_args = options.model_command(
    "export",
    DESCRIPTION,
    EXAMPLE,
    options.CORPUS + OPTIONS,
    check,
    flags=(Plan,),
    max_gigabytes=float,
)


def main(args: Namespace) -> None:
    run_command("export", args, tasks, finish)


def tasks(args: Namespace, folder: RunFolder | None) -> Iterator[Task]:
    """The arrays of a corpus, which is read once more before, for their size."""
    from fairseq_normalign.attention.arrays import ExportedArrays, gigabytes

    corpus, reader = open_corpus(args)
    arrays = arrays_of(args, reader.forcing)
    count, size = 0, 0.0
    for chunk in cut(corpus.items, READ):
        count += len(chunk.items)
        size += gigabytes(reader.read(chunk)[0][0], arrays)
    shell.say(f"{count} sentences, {size:.3g} GB")
    if not size <= args.max_gigabytes:
        raise InputError(
            f"{args.output} would have {size:.3g} GB, more than --max-gigabytes "
            f"{args.max_gigabytes:g}; choose some of --layer and --head, a smaller --quantity, or "
            "--dtype float16"
        )
    of_chunk = max(1, min(READ, int(count * CHUNK_GIGABYTES / max(size, CHUNK_GIGABYTES))))
    metadata = {"checkpoint": Path(args.path).name, "version": __version__, "sentences": count}
    make = partial(arrays_of, args)
    measure = ExportedArrays(make, of_chunk, metadata, max_tokens=args.max_tokens)
    again = corpus_of(args, reader.models[0])
    job = prepared_job(measure, reader, again.items, folder, count)
    yield reading_task(args, [job], corpus, reader, "arrays")


def finish(args: Namespace, made: Mapping[str, Made]) -> None:
    """Writes one file of all arrays."""
    from fairseq_normalign.results.export import create_export

    metadata = {name: value for name, value in made["arrays"].prepared.items() if name != "first"}
    with create_export(args.output, metadata) as export:
        for part in made["arrays"].partials:
            for name, array in part.arrays.items():
                export.add(int(name), array, *part.notes["tokens"][name])


def arrays_of(args: Namespace, forcing: TeacherForcing) -> Arrays:
    """What is exported of each pair."""
    from fairseq_normalign.attention.arrays import Arrays

    return Arrays(
        forcing, args.quantity, layers=args.layer or None, heads=args.head or None, dtype=args.dtype
    )
