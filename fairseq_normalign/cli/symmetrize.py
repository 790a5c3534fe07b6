"""``normalign symmetrize FWD REV``: alignments of two directions -> one."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import chain, islice

from fairseq_normalign.alignment.signature import first_index, made_with, signed_file
from fairseq_normalign.alignment.symmetrize import (
    HEURISTICS,
    ORDERS,
    SAMPLE,
    VARIANTS,
    check_variant,
    common_links,
    swapped,
    symmetrize,
)
from fairseq_normalign.cli.checks import check_signed_output, refuse_stdin_twice
from fairseq_normalign.cli.options import command
from fairseq_normalign.cli.shell import note
from fairseq_normalign.files import name_of
from fairseq_normalign.progress import bar
from fairseq_normalign.text.link_formats import FROM_1, OF_LINKS, WRITERS, AlignedPair, file_lines
from fairseq_normalign.text.links import FORMATS, LinkFile, read_together

DESCRIPTION = """Combine the word alignments of two directions. Writes Pharaoh lines unless -f names
another format, source word first."""
EXAMPLE = "normalign symmetrize de-en.pharaoh en-de.pharaoh --heuristic grow-diag > both.pharaoh"


OPTIONS = f"""
FORWARD             alignment of the source-to-target direction; - is stdin
REVERSE             alignment of the target-to-source direction
--heuristic {"|".join(HEURISTICS)} = grow-diag-final-and  what is kept
--variant {"|".join(VARIANTS)} = moses
    a grown link needs one free word (moses) or two (lilt, whose grow-diagonal-final is
    grow-diag-final-and here)
--rev-order auto|{"|".join(ORDERS)} = auto
    order in REVERSE's links; auto: the one with more links in common with FORWARD, in the first
    {SAMPLE} lines
--index 0|1         first word, in all three files (default: 0, or as written; in the output, 1
                    with -f naacl or talp)
-f --format {"|".join(OF_LINKS)} = pharaoh  of what is written
--input-format {"|".join(FORMATS)} = auto  format of FORWARD and REVERSE
-o --output FILE    write to FILE, and its signature to FILE.json
"""


def check(args: Namespace) -> None:
    """Refuses what does not fit together, before anything is read."""
    refuse_stdin_twice(args.forward, args.reverse)
    check_variant(args.heuristic, args.variant)
    check_signed_output(args.output, args.forward, args.reverse)


parse_args = command("symmetrize", DESCRIPTION, EXAMPLE, OPTIONS, check)


def main(args: Namespace) -> None:
    signature = signature_of(args)
    with signed_file(args.output, signature) if args.output else nullcontext(sys.stdout) as file:
        file.writelines(file_lines(lines(args, signature), args.format))


def lines(args: Namespace, signature: dict) -> Iterator[str]:
    """A line of each pair; the signature learns which order REV's links have."""
    forward, reverse = (
        LinkFile(path, index=first_index(path, args.index), format=args.input_format)
        for path in (args.forward, args.reverse)
    )
    with bar("links") as shown:
        pairs = read_together(forward, reverse)
        first = list(islice(pairs, SAMPLE))
        order = signature["rev-order"] = order_of(args, first)
        for forward_links, links in chain(first, pairs):
            reverse_links = swapped(links) if order == "target-source" else links
            both = symmetrize(forward_links, reverse_links, args.heuristic, variant=args.variant)
            yield WRITERS[args.format](AlignedPair(sorted(both)), output_index(args))
            shown.update()


def output_index(args: Namespace) -> int:
    return int(args.format in FROM_1) if args.index is None else args.index


def order_of(args: Namespace, first: list) -> str:
    """The order of REV's links: by the option, or by the first pairs, which is reported."""
    if args.rev_order != "auto":
        return args.rev_order
    common = common_links(first)
    order = max(ORDERS, key=common.__getitem__)
    found = " and ".join(f"{number} as {name}" for name, number in common.items())
    note(
        f"normalign symmetrize: {name_of(args.reverse)}: read as {order} (links in common with "
        f"{name_of(args.forward)}: {found}); --rev-order overrides"
    )
    return order


def signature_of(args: Namespace) -> dict:
    """How both directions were made, where it is known, and how they were combined."""
    forward, reverse = made_with(args.forward), made_with(args.reverse)
    options = {**forward, **reverse}
    for key in forward.keys() & reverse.keys():
        if forward[key] != reverse[key]:
            options[key] = f"{forward[key]}+{reverse[key]}"
    options.pop("index", None)
    if output_index(args):
        options["index"] = 1
    return {**options, "heuristic": args.heuristic, "variant": args.variant}
