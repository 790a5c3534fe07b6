"""Where results go: the terminal, a file of JSON, a picture."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from fairseq_normalign.cli.shell import print_signature
from fairseq_normalign.files import whole_file

if TYPE_CHECKING:
    from fairseq_normalign.results.result import Result

FORMATS = ("text", "json", "csv", "tsv", "md", "latex")


def add_output_options(parser: ArgumentParser) -> Any:
    """``-f``, ``-o`` and ``--plot``."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o", "--output", metavar="FILE.json", help="write the result here, with all details"
    )
    add_look_options(group)
    return group


def add_look_options(group: Any) -> None:
    """``-f`` and ``--plot``."""
    group.add_argument(
        "-f",
        "--format",
        choices=FORMATS,
        default="text",
        help="of what is printed",
    )
    group.add_argument("--plot", metavar="FILE", help="draw it: .png, .pdf or .svg")


def show(result: Result, args: Namespace) -> None:
    """The result as the options ask for it."""
    write_result_files(result, args)
    print_result(result, args)


def write_result_files(result: Result, args: Namespace) -> None:
    """The files that the options ask for, before anything is printed."""
    from fairseq_normalign.results.result import write_result

    if args.output:
        with whole_file(args.output) as file:
            write_result(result, file)
    if args.plot:
        from fairseq_normalign.results.figure import save

        save(result.figure(), args.plot)


def print_result(result: Result, args: Namespace, *, signature: bool = True) -> None:
    """The result on stdout, and its signature on stderr."""
    if args.format == "text":
        print(result.text())
    elif args.format == "json":
        import sys

        from fairseq_normalign.results.result import write_result

        write_result(result, sys.stdout)
    else:
        from fairseq_normalign.results.text import as_format

        print(as_format(result.blocks(), args.format))
    if signature:
        print_signature(result.signature)
