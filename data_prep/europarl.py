#!/usr/bin/env python3
"""Prepare Europarl v7 German–English with the RWTH gold alignments as in Kobayashi et al. (2020).

Downloads Europarl (about 190 MB) to OUTDIR/raw. The gold alignments (Vilar et al., 2006) are given
to those who accept
their licence: fetch DeEnGoldAlignment.tar.gz at
https://www-i6.informatik.rwth-aachen.de/goldAlignment/ yourself and name it with --gold. Writes
{train,valid,test}.{de,en}, tokenised and lowercased; test.talp, links 1-based and German first, as
published; then models, dictionaries and data-bin as prepare.py does. Needs `pip install
sacremoses`.

example: python data_prep/europarl.py europarl --gold DeEnGoldAlignment.tar.gz --jobs 8
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

from archives import extract
from command import described_by, errors_in_one_line, log
from download import download
from lines import read_lines, read_pairs, write_lines, write_pairs
from prepare import Vocabulary, prepare
from selection import Pair, disjoint, lowercase, without_last
from tokenization import tokenize

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import parse_gold

URL = "https://www.statmt.org/europarl/v7/de-en.tgz"
TEXT = ("europarl-v7.de-en.de", "europarl-v7.de-en.en")
GOLD_PAGE = "https://www-i6.informatik.rwth-aachen.de/goldAlignment/"
GOLD = ("DeEn/de", "DeEn/en", "DeEn/alignmentDeEn.talp")
VALID = 1000  # the last pairs
VOCAB_SIZE = 10000  # of each language


def gold_set(german: Path, english: Path, talp: Path) -> tuple[list[Pair], list[str]]:
    """Sentence pairs and talp lines of the RWTH gold set, which is tokenised.

    It is in Latin-1; blank lines are dropped.
    """
    sides = [_without_blank(read_lines(path, "latin-1")) for path in (german, english)]
    links = _without_blank(read_lines(talp))
    if not len(sides[0]) == len(sides[1]) == len(links):
        counts = f"{len(sides[0])} German, {len(sides[1])} English sentences"
        raise InputError(
            f"{talp.parent}: {counts} and {len(links)} lines of links; expected as many of each"
        )
    for number, (*pair, line) in enumerate(zip(*sides, links, strict=True), start=1):
        _check_range(line, pair, f"{talp}: sentence {number}")
    return list(zip(*sides, strict=True)), links


def _without_blank(lines: Iterable[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines if line.strip()]


def _check_range(line: str, pair: Sequence[str], where: str) -> None:
    lengths = [len(side.split()) for side in pair]
    try:
        links = parse_gold(line, index=1).possible
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    for link in sorted(links):
        if link[0] >= lengths[0] or link[1] >= lengths[1]:
            raise InputError(
                f"{where}: link {link[0] + 1}-{link[1] + 1}; expected at most "
                f"{lengths[0]}-{lengths[1]}"
            )


def write_corpus(
    outdir: Path, text: Sequence[Path], test: Sequence[Pair], links: Sequence[str]
) -> None:
    """The three splits, from tokenised text and gold set."""
    last: deque = deque(maxlen=VALID)
    kept = lowercase(disjoint(read_pairs(*text), test))
    write_pairs(outdir / "train.de", outdir / "train.en", without_last(kept, last))
    write_pairs(outdir / "valid.de", outdir / "valid.en", last)
    write_pairs(outdir / "test.de", outdir / "test.en", lowercase(test))
    write_lines(outdir / "test.talp", links)


def get_parser() -> argparse.ArgumentParser:
    """Options of the command."""
    parser = described_by(__doc__)
    parser.add_argument("outdir", type=Path, help="folder to write to")
    parser.add_argument(
        "--gold", type=Path, required=True, metavar="FILE", help="DeEnGoldAlignment.tar.gz"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="processes (default: %(default)s)"
    )
    return parser


def europarl(outdir: Path, gold: Path, jobs: int = 1) -> None:
    """From the web to data-bin; what an earlier run finished is not done again."""
    if not gold.exists():
        raise InputError(f"{gold}: not found; expected DeEnGoldAlignment.tar.gz, from {GOLD_PAGE}")
    raw = outdir / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    test, links = gold_set(*extract(gold, GOLD, raw))
    tokenized = []
    for path in extract(download(URL, raw / "de-en.tgz"), TEXT, raw):
        tokenized.append(path.with_name(path.name + ".tok"))
        if not tokenized[-1].exists():
            log(f"tokenising {path}")
            write_lines(tokenized[-1], tokenize(read_lines(path), path.suffix[1:], jobs))
    log("writing train, valid and test")
    write_corpus(outdir, tokenized, test, links)
    vocabulary = Vocabulary(size=VOCAB_SIZE, separate=True, dummy_prefix=False)
    prepare(outdir, outdir, ("de", "en"), vocabulary, jobs)


def main(argv: Sequence[str] | None = None) -> None:
    """Prepare, or say in one line what is wrong."""
    args = get_parser().parse_args(argv)
    with errors_in_one_line("europarl.py"):
        europarl(args.outdir, args.gold, args.jobs)


if __name__ == "__main__":
    main()
