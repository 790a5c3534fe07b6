"""Scoring and symmetrizing 25,400 sentence pairs, against a straightforward script.

The reference keeps one set of links per line and grows on full matrices, as the usual scripts do.
Both sides read the same files and must agree on every count and every line.
``$NORMALIGN_DATA/published`` holds the published fast_align outputs, which are repeated 50 times;
without it, random links of the same size are made.

    python -m benchmarks scoring
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.timing import Row
from fairseq_normalign.alignment import aer
from fairseq_normalign.alignment.symmetrize import symmetrize
from fairseq_normalign.text.links import GoldFile, LinkFile, format_links, read_together

REPEATS = 50
RUNS = 3
NEIGHBOURS = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, 1), (-1, -1), (1, -1), (1, 1)]


# The reference: what one writes in an afternoon.


def plain_links(line: str, index: int, reverse: bool = False) -> tuple[set, set]:
    sure, possible = set(), set()
    for token in line.split():
        separator = "p" if "p" in token else "-"
        a, b = token.split(separator)
        link = (int(a) - index, int(b) - index)
        if reverse:
            link = (link[1], link[0])
        possible.add(link)
        if separator == "-":
            sure.add(link)
    return sure, possible


def plain_score(gold: Path, hypothesis: Path) -> tuple:
    totals = [0, 0, 0, 0]
    with gold.open() as golds, hypothesis.open() as hypotheses:
        for gold_line, line in zip(golds, hypotheses, strict=True):
            sure, possible = plain_links(gold_line, 1)
            _, links = plain_links(line, 0)
            counts = len(links), len(sure), len(links & possible), len(links & sure)
            totals = [total + more for total, more in zip(totals, counts, strict=True)]
    return tuple(totals)


def plain_grow_diag_final_and(forward: set, reverse: set) -> set:
    rows = 1 + max((s for s, _ in forward | reverse), default=-1)
    columns = 1 + max((t for _, t in forward | reverse), default=-1)
    links, union = forward & reverse, forward | reverse
    changed = True
    while changed:
        changed = False
        for s in range(rows):
            for t in range(columns):
                if (s, t) not in links:
                    continue
                for ds, dt in NEIGHBOURS:
                    new = (s + ds, t + dt)
                    if new in union and plain_free(new, links, rows, columns):
                        links.add(new)
                        changed = True
    for direction in (forward, reverse):
        for s in range(rows):
            for t in range(columns):
                if (s, t) in direction and plain_free((s, t), links, rows, columns):
                    links.add((s, t))
    return links


def plain_free(link: tuple, links: set, rows: int, columns: int) -> bool:
    s, t = link
    if any((s, c) in links for c in range(columns)):
        return False
    return not any((r, t) in links for r in range(rows))


def plain_symmetrize(forward: Path, reverse: Path) -> list[str]:
    lines = []
    with forward.open() as ones, reverse.open() as others:
        for one, other in zip(ones, others, strict=True):
            links = plain_grow_diag_final_and(
                plain_links(one, 0)[1], plain_links(other, 0, reverse=True)[1]
            )
            lines.append(" ".join(f"{s}-{t}" for s, t in sorted(links)))
    return lines


# Ours.


def our_score(gold: Path, hypothesis: Path) -> tuple:
    [sentences] = aer.score(GoldFile(gold, index=1), [LinkFile(hypothesis)])
    return tuple(aer.Counts.total(sentences))


def our_symmetrize(forward: Path, reverse: Path) -> list[str]:
    pairs = read_together(LinkFile(forward), LinkFile(reverse, reverse=True))
    return [format_links(symmetrize(a, b, "grow-diag-final-and", variant="lilt")) for a, b in pairs]


def make_data(folder: Path) -> dict[str, Path]:
    """Gold, forward and reverse links, as long as the benchmark wants them."""
    texts = published() or random_links()
    paths = {name: folder / f"{name}.talp" for name in texts}
    for name, text in texts.items():
        paths[name].write_text(text * REPEATS)
    return paths


def published() -> dict[str, str] | None:
    data = os.environ.get("NORMALIGN_DATA")
    if not data:
        return None
    files = {
        "gold": "deen/test.talp",
        "forward": "published/fastalign/test.deen.talp",
        "reverse": "published/fastalign/test.deen.reverse.talp",
    }
    return {name: Path(data, path).read_text() for name, path in files.items()}


def random_links() -> dict[str, str]:
    """508 sentence pairs, near the diagonal like real ones."""
    generator = random.Random(0)
    lines: dict[str, list[str]] = {"gold": [], "forward": [], "reverse": []}
    for _ in range(508):
        length = generator.randint(5, 40)
        for name in lines:
            near = [max(1, t + round(generator.gauss(0, 1.5))) for t in range(1, length + 1)]
            base = 0 if name == "gold" else 1
            lines[name].append(" ".join(f"{s - base}-{t - base}" for t, s in enumerate(near, 1)))
    return {name: "\n".join(rows) + "\n" for name, rows in lines.items()}


def median_seconds(task: Callable, *paths: Path, runs: int) -> tuple[float, object]:
    times = []  # of the processor: other work on the machine counts for neither side
    for _ in range(runs):
        start = time.process_time()
        result = task(*paths)
        times.append(time.process_time() - start)
    return statistics.median(times), result


def scoring() -> Iterator[Row]:
    """Both tasks, and their sum; above 1 is faster than the reference."""
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = make_data(Path(folder))
        tasks = {
            "score": (plain_score, our_score, (paths["gold"], paths["forward"])),
            "symmetrize": (plain_symmetrize, our_symmetrize, (paths["forward"], paths["reverse"])),
        }
        for name, (plain, ours, files) in tasks.items():
            slow, expected = median_seconds(plain, *files, runs=1 if name == "symmetrize" else RUNS)
            fast, ours_said = median_seconds(ours, *files, runs=RUNS)
            if ours_said != expected:
                raise AssertionError(f"{name}: the two results differ")
            seconds[name] = [slow, fast]
    seconds["score and symmetrize"] = [
        sum(column) for column in zip(*seconds.values(), strict=True)
    ]
    for name, (slow, fast) in seconds.items():
        yield Row(f"{name} {508 * REPEATS:,} pairs against a script", fast, slow, "s", slow / fast)
