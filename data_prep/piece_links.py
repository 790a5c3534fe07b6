#!/usr/bin/env python3
"""Write links of words as links of pieces, for fairseq-preprocess --align-suffix.

Reads the text split into pieces, as prepare.py leaves it in pieces/, and Pharaoh links of its
words. Writes a line of source-target pieces, counted from 0 without </s>, for each pair. Everything
that fairseq would pass over is refused here: line counts that differ, and links beyond a sentence.

fairseq trains row t of the decoder, which predicts piece t, on the links of piece t. With --read,
links move one row on, to the row that reads the piece.

example: python data_prep/piece_links.py pieces/train.de pieces/train.en train.pharaoh \\
    -o pieces/train.align
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from command import described_by, errors_in_one_line
from lines import write_lines

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import LinkFile, format_links, read_together
from fairseq_normalign.text.piece_links import piece_links
from fairseq_normalign.text.words import SCHEMES, TextFile, word_ids


def lines_of_links(
    source: Path, target: Path, links: Path, *, scheme: str, read: bool
) -> Iterator[str]:
    """A line of piece links for each pair."""
    texts = TextFile(str(source)), TextFile(str(target)), LinkFile(str(links))
    for number, (sources, targets, of_words) in enumerate(read_together(*texts), start=1):
        where = f"line {number}"
        source_ids = word_ids(sources, scheme, where=where)
        target_ids = word_ids(targets, scheme, where=where)
        try:
            of_pieces = piece_links(of_words, source_ids, target_ids, read=read)
        except InputError as error:
            raise InputError(f"{links}:{number}: {error}") from None
        yield format_links(of_pieces)


def get_parser() -> argparse.ArgumentParser:
    """Options of the command."""
    parser = described_by(__doc__)
    parser.add_argument("source", type=Path, help="source text, split into pieces")
    parser.add_argument("target", type=Path, help="target text, split into pieces")
    parser.add_argument("links", type=Path, help="links of its words, counted from 0")
    parser.add_argument("-o", "--output", type=Path, required=True, help="file to write")
    parser.add_argument(
        "--scheme",
        choices=SCHEMES,
        default="sentencepiece",
        help="how pieces join to words (default: %(default)s)",
    )
    parser.add_argument(
        "--read",
        action="store_true",
        help="for the rows that read a piece, not those that predict it; the last piece has none",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Write the links, or say in one line what is wrong."""
    args = get_parser().parse_args(argv)
    with errors_in_one_line("piece_links.py"):
        lines = lines_of_links(
            args.source, args.target, args.links, scheme=args.scheme, read=args.read
        )
        write_lines(args.output, lines)


if __name__ == "__main__":
    main()
