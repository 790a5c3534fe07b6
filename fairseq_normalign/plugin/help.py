"""Makes ``--help`` of fairseq's commands show the options of what was chosen.

fairseq learns of a task's, architecture's or criterion's options only after it has parsed their
names, and prints its help before that.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from typing import Any

from fairseq import options
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

REGISTRIES: dict[str, dict[str, Any]] = {
    "task": TASK_REGISTRY,
    "arch": ARCH_MODEL_REGISTRY,
    "criterion": CRITERION_REGISTRY,
}


def show_chosen_options() -> None:
    """Wraps fairseq's parsing, once."""
    parse = options.parse_args_and_arch
    if getattr(parse, "shows_chosen_options", False):
        return

    @functools.wraps(parse)
    def parse_with_help(parser, input_args=None, *args, **kwargs):
        argv = sys.argv[1:] if input_args is None else list(input_args)
        if {"-h", "--help"} & set(argv):
            add_chosen_options(parser, argv)
        return parse(parser, input_args, *args, **kwargs)

    parse_with_help.shows_chosen_options = True  # type: ignore[attr-defined]
    options.parse_args_and_arch = parse_with_help


def add_chosen_options(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Adds the options of the task, architecture and criterion that the arguments name."""
    names = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    names.add_argument("--task")
    names.add_argument("--arch", "-a")
    names.add_argument("--criterion")
    named, _ = names.parse_known_args(argv)
    for option, registry in REGISTRIES.items():
        name = getattr(named, option)
        if name in registry:
            group = parser.add_argument_group(f"options of --{option} {name}")
            registry[name].add_args(group)
