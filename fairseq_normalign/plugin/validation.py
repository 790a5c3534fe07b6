"""Makes ``fairseq-validate --task translation_normalign --export-attention`` do what it says.

fairseq-validate takes the task from the checkpoint, whatever ``--task`` names, and of its options
only those that the checkpoint knows already. What it does take is a whole description of the task.
"""

from __future__ import annotations

import functools
from argparse import Namespace
from typing import Any

from fairseq import options

from fairseq_normalign.plugin.task import NAME, TranslationNormalignConfig


def take_task_from_command_line() -> None:
    """Wraps fairseq's parsing, once."""
    parse = options.parse_args_and_arch
    if getattr(parse, "takes_task", False):
        return

    @functools.wraps(parse)
    def parse_with_task(
        parser, input_args=None, parse_known=False, suppress_defaults=False, **more
    ):
        args = parse(parser, input_args, parse_known, suppress_defaults, **more)
        if suppress_defaults and getattr(args, "export_attention", ""):  # fairseq-validate
            args.task = described_task(args)
        return args

    parse_with_task.takes_task = True  # type: ignore[attr-defined]
    options.parse_args_and_arch = parse_with_task


def described_task(args: Namespace) -> dict[str, Any]:
    """The task by its name and those of its options that were given."""
    names = TranslationNormalignConfig.__dataclass_fields__
    given = {name: value for name, value in vars(args).items() if name in names}
    return {**given, "_name": NAME}
