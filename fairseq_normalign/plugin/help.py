"""Makes ``--help`` of fairseq's commands show the options of what was chosen.

fairseq learns of a task's, architecture's or criterion's options only after it has parsed their
names, and prints its help before that. An option of ours whose owner was not chosen is refused with
the owner's name.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from fairseq import options
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

from fairseq_normalign.errors import InputError

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
        parser.error = functools.partial(_refuse, parser, parser.error)
        return parse(parser, input_args, *args, **kwargs)

    parse_with_help.shows_chosen_options = True  # type: ignore[attr-defined]
    options.parse_args_and_arch = parse_with_help


# Ours, and fairseq's that they are built on.
OWNERS = {
    "arch": ("transformer_normalign", "transformer"),
    "criterion": ("label_smoothed_cross_entropy_l0", "label_smoothed_cross_entropy"),
    "task": ("translation_normalign", "translation"),
}


def _refuse(
    parser: argparse.ArgumentParser, otherwise: Callable[[str], NoReturn], message: str
) -> NoReturn:
    """Says which of our parts an option belongs to, if none was chosen that has it."""
    words = message.removeprefix("unrecognized arguments: ").split()
    unknown = {word.partition("=")[0] for word in words if word.startswith("--")}
    for option, (owner, base) in OWNERS.items():
        if f"--{option}" not in parser._option_string_actions:
            continue
        own = _options(REGISTRIES[option][owner]) - _options(REGISTRIES[option][base])
        for name in sorted(unknown & own):
            raise InputError(f"{name} is an option of --{option} {owner}; expected that with it")
    otherwise(message)


def _options(part: Any) -> set[str]:
    """The options that a task, architecture or criterion adds."""
    parser = argparse.ArgumentParser(add_help=False)
    part.add_args(parser)
    return set(parser._option_string_actions)


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
