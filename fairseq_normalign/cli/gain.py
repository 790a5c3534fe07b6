"""``normalign gain SOURCE TARGET LINKS [LINKS …]``: compare alignments without gold."""

from __future__ import annotations

import warnings
from argparse import Namespace

from fairseq_normalign.alignment.signature import first_index
from fairseq_normalign.cli.checks import check_outputs, refuse_stdin_twice
from fairseq_normalign.cli.options import command
from fairseq_normalign.cli.output import TABLES, show

DESCRIPTION = """How good word alignments are, measured without gold: how well linked words predict
each other in the rest of the corpus, in nats per word. All files must align the same text, of 100
pairs or more."""
FEW = 100
EXAMPLE = "normalign gain test.de test.en one.links two.links"


OPTIONS = """
SOURCE             tokenised source text
TARGET             tokenised target text
LINKS...           alignments, source word first
--samples N = 1000  samples for the intervals
--seed K = 12345   random seed of the samples
"""


def check(args: Namespace) -> None:
    """Refuses a stream that would be read twice."""
    files = [args.source, args.target, *args.links]
    refuse_stdin_twice(*files)
    check_outputs(args, *files)


parse_args = command("gain", DESCRIPTION, EXAMPLE, OPTIONS + TABLES, check)


def main(args: Namespace) -> None:
    from fairseq_normalign.alignment.gain import GainResult, gains
    from fairseq_normalign.text.links import LinkFile, read_together
    from fairseq_normalign.text.offsets import checked_links, located
    from fairseq_normalign.text.words import TextFile

    texts = [TextFile(args.source), TextFile(args.target)]
    files = []
    for path in args.links:
        files.append(LinkFile(path, index=first_index(path)))
    linked: list[list] = [[] for _ in files]
    for number, (source, target, *links) in enumerate(read_together(*texts, *files), 1):
        for file, of_file, pairs in zip(files, links, linked, strict=True):
            with located(f"{file.name}:{number}"):
                checked = checked_links(of_file, len(source), len(target))
            pairs.append((source, target, checked))
    if len(linked[0]) < FEW:
        warnings.warn(f"{len(linked[0])} pairs are few; the gain needs {FEW} or more", stacklevel=2)
    systems = [gains(pairs) for pairs in linked]
    show(GainResult(args.links, systems, args.samples, args.seed), args)
