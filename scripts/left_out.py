#!/usr/bin/env python
"""Gold and links of a corpus without some of its pairs or words, to see what leaving them out does.

Gold keeps its own marks and counts from 1, links count from 0, as `conventions.sh` has them.
"""

from __future__ import annotations

import argparse
import re
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

GOLD_FIRST = 1  # the first word in the gold
LINK = re.compile(r"(\d+)[-p](\d+)")

Keep = Callable[[int, int], bool]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", help="TEXT.de and TEXT.en are read")
    parser.add_argument("gold_file", metavar="GOLD")
    parser.add_argument("links_file", metavar="LINKS")
    parser.add_argument("--longest", type=int, help="leave out pairs with more words on a side")
    parser.add_argument("--punctuation", action="store_true", help="leave out its links")
    parser.add_argument("--gold", required=True, help="where to write gold")
    parser.add_argument("--links", required=True, help="where to write links")
    return parser.parse_args()


def kept(line: str, keep: Keep) -> str:
    """The links of a line that are to be kept, as they were written."""
    links = []
    for match in LINK.finditer(line):
        if keep(int(match[1]), int(match[2])):
            links.append(match[0])
    return " ".join(links)


def is_punctuation(word: str) -> bool:
    """Whether a word has no letter and no digit."""
    return all(unicodedata.category(letter)[0] in "PS" for letter in word)


def keeper(source: Sequence[str], target: Sequence[str], args: argparse.Namespace) -> Keep:
    """Which links, counted from 0, of a pair are kept."""
    if args.longest is not None and max(len(source), len(target)) > args.longest:
        return lambda i, j: False
    if not args.punctuation:
        return lambda i, j: True
    return lambda i, j: not (is_punctuation(source[i]) or is_punctuation(target[j]))


def main() -> None:
    args = parse_args()
    names = (f"{args.text}.de", f"{args.text}.en", args.gold_file, args.links_file)
    lines_of = [Path(name).read_text(encoding="utf-8").splitlines() for name in names]
    gold, links = [], []
    for source, target, of_gold, of_links in zip(*lines_of, strict=True):
        keep = keeper(source.split(), target.split(), args)

        def keep_gold(i: int, j: int, keep: Keep = keep) -> bool:
            return keep(i - GOLD_FIRST, j - GOLD_FIRST)

        gold.append(kept(of_gold, keep_gold))
        links.append(kept(of_links, keep))
    Path(args.gold).write_text("\n".join(gold) + "\n", encoding="utf-8")
    Path(args.links).write_text("\n".join(links) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
