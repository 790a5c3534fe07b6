"""Several checkpoints of one architecture, as of several seeds: ``--path A.pt B.pt …``."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence

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


def numbers_of(args: Namespace) -> list[int | None]:
    """A number for each checkpoint, from 1, in the names of what is measured; none for one."""
    return [None] if len(args.path) == 1 else list(range(1, len(args.path) + 1))


def options_of_each(args: Namespace) -> list[Namespace]:
    """The options for each checkpoint by itself, to be given to ``host.options.load``.

    Several checkpoints are loaded one by one before the work begins, so that one that cannot be
    read, or is of another architecture, is refused at once.

    Args:
        args: options that are complete, with a list in ``path``.
    """
    of_each = [Namespace(**{**vars(args), "path": path}) for path in args.path]
    if len(of_each) > 1:
        directions, heads = zip(*map(_direction_and_heads, of_each), strict=True)
        check_directions(args.path, directions)
        if len(set(heads)) > 1:
            raise InputError(
                "--path: the checkpoints have different layers or heads; name models of one "
                "architecture with the same heads, or measure each alone"
            )
    return of_each


def _direction_and_heads(args: Namespace) -> tuple[str, frozenset[Head]]:
    """As in ``de-en``; heads by the names that they had before any was removed."""
    from fairseq_normalign.host.attention_modules import head_names
    from fairseq_normalign.host.options import load
    from fairseq_normalign.host.special_tokens import languages_of

    model = load(args, attention=getattr(args, "attention", "cross"))
    source, target = languages_of(model.reader.task)
    return f"{source}-{target}", frozenset(head_names(model.forcing.model))


def check_directions(paths: Sequence[str], directions: Sequence[str]) -> None:
    """Refuses models of different directions."""
    for path, direction in zip(paths, directions, strict=True):
        if direction != directions[0]:
            raise InputError(
                f"{path} translates {direction}, {paths[0]} {directions[0]}; name models of one "
                "direction"
            )
