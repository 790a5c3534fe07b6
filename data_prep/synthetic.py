#!/usr/bin/env python3
"""Generate a parallel corpus of two invented languages with exact gold alignments.

Writes {train,valid,test}.{src,tgt}; {valid,test}.talp, links 0-based and source first, `i-j` sure
and `ipj` possible; {valid,test}.src.conllu, dependency trees; freq.src.txt, the words of train.src
with their counts. The same seed writes the same bytes; another --train leaves valid and test as
they are.

example: python data_prep/synthetic.py corpus --seed 1
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from command import described_by
from invented import source, target
from invented.lexicon import Lexicon
from invented.meaning import Thinker
from invented.style import PLAIN, STYLES, Style
from invented.words import Word, conllu, links, text
from lines import write_lines


@dataclass(frozen=True)
class Pair:
    """A sentence in both languages."""

    source: list[Word]
    target: list[Word]


def sentence_pairs(seed: int, style: Style = PLAIN) -> Iterator[Pair]:
    """Sentence pairs without end, no source sentence twice."""
    rng = random.Random(seed)
    thinker = Thinker(Lexicon(rng, style), rng, style)
    seen = set()
    while True:
        clause = thinker.sentence()
        pair = Pair(source.sentence(clause), target.sentence(clause))
        if text(pair.source) not in seen:
            seen.add(text(pair.source))
            yield pair


def frequencies(words: Iterable[str]) -> list[str]:
    """Lines `word TAB count`, the most frequent first, ties in alphabetical order."""
    return [
        f"{word}\t{count}"
        for word, count in sorted(Counter(words).items(), key=lambda item: (-item[1], item[0]))
    ]


def write_split(outdir: Path, split: str, pairs: list[Pair]) -> None:
    """Both sides of a split and, for all but train, the gold links and trees."""
    write_lines(outdir / f"{split}.src", (text(pair.source) for pair in pairs))
    write_lines(outdir / f"{split}.tgt", (text(pair.target) for pair in pairs))
    if split == "train":
        words = chain.from_iterable(pair.source for pair in pairs)
        write_lines(outdir / "freq.src.txt", frequencies(word.form for word in words))
    else:
        write_lines(outdir / f"{split}.talp", (links(pair.source, pair.target) for pair in pairs))
        trees = (
            conllu(pair.source, f"{split}-{number}") for number, pair in enumerate(pairs, start=1)
        )
        write_lines(outdir / f"{split}.src.conllu", trees)
    print(f"{outdir / split}: {len(pairs)} sentence pairs", file=sys.stderr)


def get_parser() -> argparse.ArgumentParser:
    """Options of the command."""
    parser = described_by(__doc__)
    parser.add_argument("outdir", type=Path, help="folder to write to")
    parser.add_argument(
        "--seed", type=int, default=1, help="of lexicon and sentences (default: %(default)s)"
    )
    parser.add_argument(
        "--style",
        choices=STYLES,
        default="plain",
        help="plain: a translation can be foreseen; free: as in natural languages, it cannot, for "
        "words have several translations, and the target any order (default: %(default)s)",
    )
    for split, size in (("train", 30000), ("valid", 500), ("test", 500)):
        parser.add_argument(
            f"--{split}", type=_size, default=size, metavar="N", help="pairs (default: %(default)s)"
        )
    return parser


def _size(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}; expected a number of sentence pairs")
    return int(text)


def main(argv: Sequence[str] | None = None) -> None:
    """Write the corpus."""
    args = get_parser().parse_args(argv)
    args.outdir.mkdir(parents=True, exist_ok=True)
    stream = sentence_pairs(args.seed, STYLES[args.style])
    # Train comes last, so that its size does not move the others.
    for split in ("test", "valid", "train"):
        write_split(args.outdir, split, list(islice(stream, getattr(args, split))))


if __name__ == "__main__":
    main()
