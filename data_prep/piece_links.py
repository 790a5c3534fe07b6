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
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from command import described_by, errors_in_one_line
from lines import write_lines

from fairseq_normalign.alignment.combine import link_matrix
from fairseq_normalign.text.links import Link, LinkFile, format_links, read_together
from fairseq_normalign.text.words import SCHEMES, TextFile, word_ids


def piece_links(
    links: Iterable[Link],
    source_ids: Sequence[int],
    target_ids: Sequence[int],
    *,
    read: bool = False,
    where: str = "",
) -> list[Link]:
    """Every source piece of a linked word with every target piece of the other word.

    fairseq's criterion takes the link (s, t) for row t of the decoder, which predicts piece t. The
    row that reads piece t is row t + 1. fairseq gives up all links of a sentence that has one with
    t ≥ T, so the last piece, which row T reads, has no link for rows that read.

    Args:
        links: of words, (source, target).
        source_ids: the word of each source piece.
        target_ids: the word of each target piece.
        read: the links are to be those of the rows that read a piece.
        where: put before error messages.

    Returns:
        Links (s, t), 0 ≤ s < S and 0 ≤ t < T pieces.
    """
    words = max(target_ids, default=-1) + 1, max(source_ids, default=-1) + 1
    of_words = link_matrix(links, words, where)
    targets, sources = of_words[np.ix_(target_ids, source_ids)].nonzero()
    of_pieces = zip(sources.tolist(), (targets + read).tolist(), strict=True)
    return sorted(link for link in of_pieces if link[1] < len(target_ids))


def lines_of_links(
    source: Path, target: Path, links: Path, *, scheme: str, read: bool
) -> Iterator[str]:
    """A line of piece links for each pair."""
    texts = TextFile(str(source)), TextFile(str(target)), LinkFile(str(links))
    for number, (sources, targets, of_words) in enumerate(read_together(*texts), start=1):
        ids = [word_ids(side, scheme, where=f"line {number}") for side in (sources, targets)]
        yield format_links(piece_links(of_words, *ids, read=read, where=f"{links}:{number}"))


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
