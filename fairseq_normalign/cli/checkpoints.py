"""Several checkpoints of one architecture, as of several seeds: ``--path A.pt B.pt …``."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from typing import NamedTuple

from fairseq_normalign.cli.checks import named_files, refuse_streams
from fairseq_normalign.errors import InputError
from fairseq_normalign.names import Head

# What is read once for each model.
READ_BY_EACH = ("source_file", "target_file", "hypotheses", "gold", "frequencies")


def check_several(args: Namespace) -> None:
    """Refuses a checkpoint that is named twice, and pipes that several models would read."""
    if len(args.path) < 2:
        return
    places = [os.path.realpath(path) for path in args.path]
    for number, path in enumerate(args.path):
        if places[number] in places[:number]:
            raise InputError(f"--path: {path} is named twice; expected different checkpoints")
    files = named_files(args, READ_BY_EACH)
    refuse_streams(*files, why=f", and {len(args.path)} models read it")


def options_of_each(args: Namespace) -> list[Namespace]:
    """The options for each checkpoint by itself, to be given to ``host.options.load``.

    Several checkpoints are loaded one by one before the work begins, so that one that cannot be
    read, or is of another architecture, is refused at once.

    Args:
        args: options that are complete, with a list in ``path``.
    """
    of_each = [Namespace(**{**vars(args), "path": path}) for path in args.path]
    if len(of_each) > 1:
        check_alike(args.path, list(map(_shape, of_each)))
    return of_each


class Shape(NamedTuple):
    """What checkpoints must have in common if a mean is to be taken of what they do."""

    direction: str  # de-en
    heads: Sequence[Head]  # of all attentions, by the names that they had before any was removed


def _shape(args: Namespace) -> Shape:
    from fairseq_normalign.host.attention_modules import head_names
    from fairseq_normalign.host.options import load
    from fairseq_normalign.host.special_tokens import languages_of

    model = load(args, attention=getattr(args, "attention", "cross"))
    source, target = languages_of(model.reader.task)
    return Shape(f"{source}-{target}", head_names(model.forcing.model))


def check_alike(paths: Sequence[str], shapes: Sequence[Shape]) -> None:
    """Refuses models of different directions, or with different layers or heads."""
    first = shapes[0]
    for path, shape in zip(paths, shapes, strict=True):
        if shape.direction != first.direction:
            raise InputError(
                f"{path} translates {shape.direction}, {paths[0]} {first.direction}; expected "
                "models of one direction"
            )
        for head in sorted({*shape.heads} ^ {*first.heads}):
            with_it, without = (path, paths[0]) if head in shape.heads else (paths[0], path)
            raise InputError(
                f"{with_it} has a head {head}, and {without} has none; expected checkpoints of "
                "one architecture, with the same heads"
            )
