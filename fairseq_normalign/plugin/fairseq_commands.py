"""fairseq's own commands with the plugin: one-line errors, help of chosen options, the task."""

from __future__ import annotations

import argparse
import functools
import re
import sys
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
from fairseq_normalign.host.options import stated
from fairseq_normalign.plugin.task import NAME, TranslationNormalignConfig

# The end of a traceback of an error of ours.
RAISED = re.compile(rf"{InputError.__module__}\.\w+: (.*)")


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
    raised = RAISED.match(lines[-1])
    if raised is not None:
        return raised[1]
    return lines[-1] if isinstance(error, InputError) else None


# What an option chooses from; ours, and fairseq's that it is built on.
PARTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "task": (TASK_REGISTRY, "translation_normalign", "translation"),
    "arch": (ARCH_MODEL_REGISTRY, "transformer_normalign", "transformer"),
    "criterion": (
        CRITERION_REGISTRY,
        "label_smoothed_cross_entropy_l0",
        "label_smoothed_cross_entropy",
    ),
}


def parse_as_plugin() -> None:
    """Wraps fairseq's parsing: help of chosen options, and the task of fairseq-validate."""
    parse = options.parse_args_and_arch

    @functools.wraps(parse)
    def parse_with_ours(
        parser, input_args=None, parse_known=False, suppress_defaults=False, **more
    ):
        argv = sys.argv[1:] if input_args is None else list(input_args)
        if {"-h", "--help"} & set(argv):
            add_chosen_options(parser, argv)
        parser.error = partial(_refuse, parser, parser.error)
        args = parse(parser, input_args, parse_known, suppress_defaults, **more)
        if suppress_defaults and getattr(args, "export_attention", ""):  # fairseq-validate
            fields = TranslationNormalignConfig.__dataclass_fields__
            given = {name: value for name, value in vars(args).items() if name in fields}
            args.task = {**given, "_name": NAME}
        return args

    options.parse_args_and_arch = parse_with_ours


def _refuse(
    parser: argparse.ArgumentParser, otherwise: Callable[[str], NoReturn], message: str
) -> NoReturn:
    """Says which of our parts an option belongs to, if none was chosen that has it."""
    words = message.removeprefix("unrecognized arguments: ").split()
    unknown = {word.partition("=")[0] for word in words if word.startswith("--")}
    for option, (registry, owner, base) in PARTS.items():
        if f"--{option}" not in parser._option_string_actions:
            continue
        own = _options(registry[owner]) - _options(registry[base])
        for name in sorted(unknown & own):
            raise InputError(f"{name} needs --{option} {owner}")
    otherwise(message)


def _options(part: Any) -> set[str]:
    """The options that a task, architecture or criterion adds."""
    parser = argparse.ArgumentParser(add_help=False)
    part.add_args(parser)
    return set(parser._option_string_actions)


def add_chosen_options(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Adds the options of the task, architecture and criterion that the arguments name."""
    named = stated(argv, "--task", "--arch -a", "--criterion")
    for option, (registry, *_) in PARTS.items():
        name = getattr(named, option)
        if name in registry:
            group = parser.add_argument_group(f"options of --{option} {name}")
            registry[name].add_args(group)
