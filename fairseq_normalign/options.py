"""Options that are declared once: the fields of a dataclass, or the text of a help.

Fields make the flags of a command, and the keywords of the Python API. What a command alone has is
declared by ``declare``.

    @dataclass(frozen=True)
    class MixingOptions:
        limit: int | None = option(None, "N  take the first N sentences (default: all)")
        average: str = option("macro", "macro|micro  of the ratios")
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import MISSING, Field, field, fields
from typing import Any, TypeVar

from fairseq_normalign.strict_json import decimal

Options = TypeVar("Options")

ENTRY = re.compile(r"\n {0,2}(?=\S)")  # between two options; help goes on at deeper indents

# How translations are searched for, unless said otherwise, by fairseq's names.
SEARCH = {"beam": 4, "lenpen": 1.0, "max_len_a": 1.2, "max_len_b": 10}


def option(
    default: Any,
    text: str,
    kind: Callable[[str], Any] | None = None,
    *,
    alone: Any = None,
    group: str = "",
) -> Any:
    """A field of a dataclass of options.

    Args:
        default: what it is unless it is given; False makes a switch.
        text: what its value is, two blanks, and its meaning, as in ``declare``; the parser adds the
            default unless the text states it, or it is None.
        kind: turns text into a value, and raises ``ArgumentTypeError`` or ``ValueError``.
        alone: what the flag means without a value, if it may stand alone.
        group: the heading that it stands under in ``--help``.
    """
    value, _, help = text.rpartition("  ")
    argument = _argument("" if default is False else value or "VALUE")
    argument["help"] = _escaped(help)
    if kind is not None:
        argument["type"] = kind
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
    for own in _declared(options):
        if only and own.name not in only:
            continue
        title = own.metadata["group"]
        made = own.default_factory
        default = own.default if made is MISSING else made()
        argument = {**own.metadata["argument"], "default": default}
        argument["help"] = _with_default(argument["help"], default)
        group = group_of(parser, title) if title else parser
        group.add_argument(flag(own.name), **argument)


def declare(parser: Any, text: str, **kinds: Callable[[str], Any]) -> None:
    """Adds the options of a command, which are written as its help shows them.

        training: of the head
          --epochs N = 6          at most: it stops when held-out pairs
                                  get worse
          --links FILE...         links of the text
          --step input|output     which row of the decoder
          --cpu                   use no GPU
          -o --output FILE = required  the file to write

    Two blanks stand before the help of an option, which may go on in lines that are indented
    deeper. Behind a name stands what its value is: ``N`` a number from 1, ``K`` from 0, ``X`` from
    0 to 1, another word in capitals any text; or all that it may be. ``...`` takes one value or
    more, brackets none as well, and ``+`` a value each time that the option is named. The default
    is None, of several values ``[]``. What has no name is a word of the command. A heading may have
    a description behind a colon.

    Args:
        parser: or a group of it.
        kinds: what turns the text of an option into a value, if its kind of value does not tell.
    """
    group = parser
    for entry in ENTRY.split(inspect.cleandoc(text)):
        usage, _, help = entry.partition("  ")
        if not help:
            title, _, description = entry.partition(":")
            group = group_of(parser, title, description.strip())
            continue
        usage, _, default = usage.strip().partition(" = ")
        names = [word for word in usage.split() if word.startswith("-")]
        argument = _argument(*usage.split()[len(names) :])
        if not names:
            names = [argument["metavar"].lower()]
        name = names[-1].strip("-").replace("-", "_")
        if name in kinds:
            argument["type"] = kinds[name]
        if default == "required":
            argument["required"], default = True, ""
        if default:
            defaults = list(map(argument["type"], default.split()))
            argument["default"] = defaults if "nargs" in argument else defaults[0]
        help = _with_default(_escaped(" ".join(help.split())), default)
        group.add_argument(*names, **argument, help=help)


def _argument(value: str = "") -> dict[str, Any]:
    """What argparse is told of ``N``, ``FILE...``, ``this|that``, or of a switch."""
    if not value:
        return {"action": "store_true"}
    if value.endswith("+"):
        return {"action": "append", "default": [], "metavar": value.removesuffix("+")}
    argument: dict[str, Any] = {"type": str}
    name = value.strip("[].")
    if value.endswith(("...", "...]")):
        argument |= {"nargs": "*" if value.startswith("[") else "+", "default": []}
    elif value.startswith("["):
        argument["nargs"] = "?"
    choices = name.split("|")
    if choices[0].isdigit():
        return argument | {"type": from_0, "choices": list(map(int, choices))}
    if name.islower():
        return argument | {"choices": choices}
    return argument | {"metavar": name, "type": VALUES.get(name, str)}


def _escaped(help: str) -> str:
    """A help text as argparse takes it, which puts values where ``%(name)s`` stands."""
    return re.sub(r"%(?!\()", "%%", help)


def _with_default(help: str, default: Any) -> str:
    """Adds the default to a help text that does not state it."""
    if default is None or default is False or default in ("", [], ()) or "default" in help:
        return help
    words = default if isinstance(default, (list, tuple)) else [default]
    return f"{help} (default: {' '.join(map(str, words))})"


def group_of(parser: Any, title: str, description: str = "") -> Any:
    """The group of options with a heading, which several may add to."""
    for group in parser._action_groups:
        if group.title == title:
            return group
    return parser.add_argument_group(title, description or None)


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


VALUES: dict[str, Callable[[str], Any]] = {"N": positive, "K": from_0, "X": share}  # of ``declare``
