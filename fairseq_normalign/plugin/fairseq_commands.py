"""fairseq's own commands with the plugin: one-line errors, help of chosen options, the task."""

from __future__ import annotations

import argparse
import functools
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from fairseq import options
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY
from torch.multiprocessing import ProcessRaisedException

from fairseq_normalign.errors import InputError
from fairseq_normalign.plugin.task import NAME, TranslationNormalignConfig


def report_bad_input() -> None:
    """Changes what an uncaught InputError prints, if this process is a command of fairseq's.

    All other errors, and all other programs, keep their tracebacks.
    """
    if "fairseq_cli" in sys.modules:
        sys.excepthook = partial(_report, sys.excepthook)


def _report(otherwise, kind: type, error: BaseException, traceback: TracebackType | None) -> None:
    message = bad_input(error)
    if message is None:
        otherwise(kind, error, traceback)
        return
    print(f"{Path(sys.argv[0]).name}: {message}", file=sys.stderr)
    sys.exit(2)


def bad_input(error: BaseException) -> str | None:
    """The message of an InputError, raised here or in a process of a parallel training."""
    lines = str(error).strip().splitlines()
    if not isinstance(error, InputError | ProcessRaisedException) or not lines:
        return None
    kinds: list[type[InputError]] = [InputError, *InputError.__subclasses__()]
    for kind in kinds:
        name = f"{kind.__module__}.{kind.__qualname__}: "  # as at the end of a traceback
        if lines[-1].startswith(name):
            return lines[-1].removeprefix(name)
    return lines[-1] if isinstance(error, InputError) else None


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
