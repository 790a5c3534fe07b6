"""``python -m benchmarks [NAME …] [--json FILE]``: prints a table of ratios.

With ``--json``, it is also written as JSON.
"""

from __future__ import annotations

import argparse
import json
import logging
import warnings
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import torch

from benchmarks import (
    alti,
    combination,
    gradients,
    heads,
    large,
    memory,
    mixing,
    norms,
    relevance,
    scoring,
    timing,
)

BENCHMARKS = {
    "extraction": norms.extraction,
    "early": norms.early,
    "memory": memory.memory,
    "computation": norms.computation,
    "throughput": norms.throughput,
    "corpus": norms.corpus,
    "scoring": scoring.scoring,
    "gated": heads.gated,
    "pruned": heads.pruned,
    "ablation": heads.ablation,
    "relevance": relevance.relevance,
    "methods": relevance.methods,
    "mixing": mixing.mixing,
    "alti": alti.alti,
    "gradients": gradients.gradients,
    "combination": combination.combination,
    "interactive": combination.interactive,
    "large": large.large,
    "samples": large.samples,
    "workers": large.workers,
    "end-to-end": large.end_to_end,
}
BY_NAME = ("large", "samples", "end-to-end")  # of 100,000 pairs: only if they are named


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure what we claim, on one thread."
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"any of {', '.join(BENCHMARKS)} (default: all but {', '.join(BY_NAME)})",
    )
    parser.add_argument(
        "--json", type=Path, default=Path(__file__).with_name("results.json"), metavar="FILE"
    )
    args = parser.parse_args(argv)
    unknown = set(args.names) - set(BENCHMARKS)
    if unknown:
        parser.error(
            f"unknown benchmark {', '.join(sorted(unknown))}; expected any of "
            f"{', '.join(BENCHMARKS)}"
        )
    default = [name for name in BENCHMARKS if name not in BY_NAME]
    rows = []
    print(timing.HEADER)
    for row in chain.from_iterable(BENCHMARKS[name]() for name in args.names or default):
        print(timing.format_row(row), flush=True)
        rows.append(row)
    results = {"machine": timing.machine(), "rows": [row._asdict() for row in rows]}
    print(", ".join(f"{name} {value}" for name, value in results["machine"].items()))
    args.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # fairseq's, of what it cannot import
    warnings.filterwarnings("ignore", category=UserWarning)
    torch.set_num_threads(1)  # threads that wait for each other measure the machine's other work
    main()
