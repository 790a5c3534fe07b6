"""Where results go: the terminal, a file of JSON, a picture."""

from __future__ import annotations

import sys
from argparse import Namespace

from fairseq_normalign.cli.shell import print_signature
from fairseq_normalign.files import whole_file
from fairseq_normalign.results.result import Result, write_result
from fairseq_normalign.results.text import as_format

TABLES = """
output:
  -o --output FILE.json    write the result here, with all details
  -f --format text|json|csv|tsv|md|latex = text  format of what is printed
"""
OUTPUT = f"{TABLES}  --plot FILE              draw it: .png, .pdf or .svg\n"


def show(result: Result, args: Namespace) -> None:
    """The result as the options ask for it."""
    write_result_files(result, args)
    print_result(result, args)


def write_result_files(result: Result, args: Namespace) -> None:
    """The files that the options ask for, before anything is printed."""
    if args.output:
        with whole_file(args.output) as file:
            write_result(result, file)
    if getattr(args, "plot", None):
        from fairseq_normalign.results.figure import save  # late: matplotlib is slow

        save(result.figure(), args.plot)


def print_result(result: Result, args: Namespace, *, signature: bool = True) -> None:
    """The result on stdout, and its signature on stderr."""
    if args.format == "text":
        print(result.text())
    elif args.format == "json":
        write_result(result, sys.stdout)
    else:
        print(as_format(result.blocks(), args.format))
    if signature:
        print_signature(result.signature)
