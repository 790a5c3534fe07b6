"""fast_align as systran-align has it, with both directions symmetrised by grow-diag-final-and.

usage: python fast_align.py SOURCE TARGET TESTS LINKS

Trains on the pairs of two text files with the options that fast_align's authors recommend (-d -o
-v), and writes the links of the last TESTS pairs to LINKS. The two directions are not to be had
alone. Run by the Python of the environment that has systran-align (see compare_aligners.py); it
needs nothing else.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ITERATIONS = 5  # the default of fast_align


def sentences(path: str) -> list[list[str]]:
    """The words of every line, separated by ASCII blanks."""
    lines = Path(path).read_text(encoding="utf-8").split("\n")[:-1]
    return [[word for word in line.split(" ") if word] for line in lines]


def trained(source: list[list[str]], target: list[list[str]], folder: str):
    """An aligner of both directions; empty sentences teach it nothing."""
    import systran_align

    pairs, forward, reverse = (f"{folder}/{name}" for name in ("pairs", "forward", "reverse"))
    with Path(pairs).open("w", encoding="utf-8") as file:
        for here, there in zip(source, target, strict=True):
            if here and there:
                print(*here, "|||", *there, file=file)
    systran_align.generate_alignment_probabilities(
        pairs,
        forward,
        reverse,
        iterations=ITERATIONS,
        favor_diagonal=True,
        optimize_tension=True,
        variational_bayes=True,
    )
    return systran_align.Aligner(forward, reverse)


def main(source_file: str, target_file: str, tests: str, links_file: str) -> None:
    source, target = sentences(source_file), sentences(target_file)
    first = len(source) - int(tests)
    with tempfile.TemporaryDirectory() as folder, Path(links_file).open("w") as file:
        aligner = trained(source, target, folder)
        for here, there in zip(source[first:], target[first:], strict=True):
            links = aligner.align(here, there)["alignments"] if here and there else []
            print(*(f"{i}-{j}" for i, j in sorted(links)), file=file)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
