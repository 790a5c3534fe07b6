#!/usr/bin/env python
"""Whether links are as often right as their confidence says, measured on gold.

    normalign align deen/ test.de test.en -r ende/ -f jsonl > test.jsonl
    python scripts/calibration.py test.jsonl test.talp --gold-index 1 --plot reliability.png

A link is right if it is in the gold, sure or possible. The expected calibration error is the mean
over all links of |share of right links − mean confidence| of their tenth (Naeini et al., 2015).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from fairseq_normalign import GoldFile
from fairseq_normalign.results.blocks import Curve, Curves, Point
from fairseq_normalign.results.figure import drawn

BINS = 10


def links_and_gold(links: Path, gold: GoldFile) -> tuple[np.ndarray, np.ndarray]:
    """The confidence of each link, and whether it is right."""
    shares: list[float] = []
    right: list[bool] = []
    with links.open(encoding="utf-8") as lines:
        for line, of_pair in zip(lines, gold, strict=True):
            pair = json.loads(line)
            shares += pair["shares"]
            right += [tuple(link) in of_pair.possible for link in pair["links"]]
    return np.array(shares), np.array(right)


def reliability(shares: np.ndarray, right: np.ndarray) -> list[tuple[int, float, float]]:
    """Of each tenth that has links: how many, their mean confidence, and how many are right."""
    tenths = np.minimum((shares * BINS).astype(int), BINS - 1)
    rows = []
    for tenth in np.unique(tenths):
        inside = tenths == tenth
        rows.append((int(inside.sum()), shares[inside].mean(), right[inside].mean()))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("links", type=Path, help="links as normalign align -f jsonl writes them")
    parser.add_argument("gold", help="gold links")
    parser.add_argument("--gold-index", type=int, choices=(0, 1), default=0)
    parser.add_argument("--plot", metavar="FILE", help="draw the reliability diagram")
    args = parser.parse_args()
    rows = reliability(*links_and_gold(args.links, GoldFile(args.gold, index=args.gold_index)))
    print("links  confidence  right")
    for count, share, right in rows:
        print(f"{count:5}  {share:10.3f}  {right:5.3f}")
    total = sum(count for count, *_ in rows)
    error = sum(count * abs(right - share) for count, share, right in rows) / total
    print(f"expected calibration error of {total} links: {error:.3f}")
    if args.plot:
        curves = [
            Curve("links", [Point(float(share), float(right)) for _, share, right in rows]),
            Curve("perfect", [Point(0.5, 0.5), Point(1.0, 1.0)], dashed=True),
        ]
        about = Curves("Reliability of links", "confidence", "share in the gold", curves)
        drawn([about]).savefig(args.plot, dpi=150)


if __name__ == "__main__":
    main()
