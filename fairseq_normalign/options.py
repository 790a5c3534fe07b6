"""Options that are declared once: the fields of a dataclass.

They make the flags of a command, and the keywords of the Python API.

    @dataclass(frozen=True)
    class MixingOptions:
        limit: int | None = option(None, "take the first N sentences (default: all)", positive)
        average: str = option("macro", "of the ratios", choices=("macro", "micro"))
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, field, fields
from typing import Any, TypeVar

from fairseq_normalign.strict_json import decimal

Options = TypeVar("Options")

# How translations are searched for, unless said otherwise, by fairseq's names.
SEARCH = {"beam": 4, "lenpen": 1.0, "max_len_a": 1.2, "max_len_b": 10}


def option(
    default: Any,
    help: str,
    kind: Callable[[str], Any] | None = None,
    *,
    choices: Collection[str] | None = None,
    metavar: str | None = None,
    many: bool = False,
    alone: Any = None,
    group: str = "",
) -> Any:
    """A field of a dataclass of options.

    Args:
        default: what it is unless it is given; False makes a switch.
        help: its meaning; the parser adds the default unless the text states it, or it is None.
        kind: turns text into a value, and raises ``ArgumentTypeError`` or ``ValueError``.
        many: takes one value or more.
        alone: what the flag means without a value, if it may stand alone.
        group: the heading that it stands under in ``--help``.
    """
    argument: dict[str, Any] = {"help": help.replace("%", "%%")}
    if default is False:
        argument |= {"action": "store_true"}
    elif choices is not None:
        argument |= {"choices": tuple(choices)}
    else:
        argument |= {"type": kind or str, "metavar": metavar or "VALUE"}
    if many:
        argument |= {"nargs": "+"}
    if alone is not None:
        argument |= {"nargs": "?", "const": alone}
    declared = {"argument": argument, "group": group, "help": help}  # fairseq reads the last one
    if isinstance(default, (list, dict, set)):
        return field(default_factory=lambda: type(default)(default), metadata=declared)
    return field(default=default, metadata=declared)


def add_flags(
    parser: argparse.ArgumentParser, options: type, *, only: Collection[str] = ()
) -> None:
    """Adds a flag for each field that is declared by ``option``, under the headings they name.

    Args:
        only: names of fields, if not all of them become flags.
    """
    groups: dict[str, Any] = {"": parser}
    for own in _declared(options):
        if only and own.name not in only:
            continue
        title = own.metadata["group"]
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        made = own.default_factory
        default = own.default if made is MISSING else made()
        groups[title].add_argument(flag(own.name), default=default, **own.metadata["argument"])


def add_table(group: Any, table: Mapping[str, Any]) -> None:
    """Options by their flags.

    Args:
        table: the help of a switch; or, of an option with a value, what stands for it in help (or
            all that it may be), help, and perhaps its type, default and number.
    """
    for flags, entry in table.items():
        if isinstance(entry, str):
            group.add_argument(*flags.split(), action="store_true", help=entry)
            continue
        first = "metavar" if isinstance(entry[0], str) else "choices"
        named = zip((first, "help", "type", "default", "nargs"), entry, strict=False)
        group.add_argument(*flags.split(), **dict(named))


def flag(name: str) -> str:
    """An option as users write it."""
    return f"--{name.replace('_', '-')}"


def _declared(options: type) -> list[Field]:
    return [own for own in fields(options) if "argument" in own.metadata]


def read_options(options: type[Options], args: argparse.Namespace, **others: Any) -> Options:
    """The options that a command has; others keep their defaults.

    Args:
        others: values of fields that are no flags, or are not what the flag says.
    """
    names = [own.name for own in _declared(options) if hasattr(args, own.name)]
    given = {name: getattr(args, name) for name in names}
    return options(**{**given, **others})


def positive(text: str) -> int:
    """A number from 1."""
    return _whole(text, 1)


def layer(text: str) -> int | str:
    """A layer from 1, or ``auto``."""
    return text if text == "auto" else positive(text)


def from_0(text: str) -> int:
    """A number from 0."""
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) >= least):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number from {least}")
    return int(text)


def share(text: str) -> float:
    """A number from 0 to 1."""
    try:
        value = decimal(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number from 0 to 1")
    return value
