"""The published outputs of fast_align and GIZA++ score and symmetrise as published.

Looks for ``published/TOOL/PAIR-results.txt`` and ``published/TOOL/test.PAIR*.talp`` under
``$NORMALIGN_DATA``, with the gold in ``PAIR/test.talp``; pairs that are not there are not tested.
"""

import os
import re
from pathlib import Path

import pytest

from fairseq_normalign.alignment.aer import Counts, score
from fairseq_normalign.alignment.symmetrize import symmetrize
from fairseq_normalign.text.links import GoldFile, LinkFile, read_together

DATA = Path(os.environ.get("NORMALIGN_DATA", "unset"))
RESULT = re.compile(r"(test\.\w+(?:\.[\w-]+)?\.talp): ([\d.]+)% \(([\d.]+)%/([\d.]+)%/\d+\)")
STORED = {  # heuristic: its name in the stored files
    "intersection": "intersection",
    "union": "union",
    "grow-diag": "grow-diagonal",
    "grow-diag-final-and": "grow-diagonal-final",
}

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="NORMALIGN_DATA is unset: it names the folder of real data"
)


def published():
    """(stored file, gold, AER, P, R) of every published number whose files are there."""
    for results in sorted(DATA.glob("published/*/*-results.txt")):
        gold = DATA / results.name[: -len("-results.txt")] / "test.talp"
        for name, *numbers in RESULT.findall(results.read_text()):
            if gold.exists() and (results.parent / name).exists():
                yield pytest.param(
                    results.parent / name,
                    gold,
                    *map(float, numbers),
                    id=f"{results.parent.name}-{name}",
                )


@pytest.mark.parametrize(("path", "gold", "aer", "precision", "recall"), list(published()))
def test_scores(path, gold, aer, precision, recall):
    [sentences] = score(GoldFile(gold, index=1), [LinkFile(path, reverse=".reverse." in path.name)])
    total = Counts.total(sentences)
    numbers = [100 * value for value in (total.aer, total.precision, total.recall)]
    assert numbers == pytest.approx([aer, precision, recall], abs=0.1)


@pytest.mark.parametrize(
    "path", sorted(DATA.glob("published/*/test.*.reverse.talp")), ids=lambda path: str(path)[-40:]
)
@pytest.mark.parametrize("heuristic", STORED)
def test_symmetrization(path, heuristic):
    stem = path.name[: -len("reverse.talp")]
    forward, stored = path.parent / f"{stem}talp", path.parent / f"{stem}{STORED[heuristic]}.talp"
    rows = list(read_together(LinkFile(forward), LinkFile(path, reverse=True), LinkFile(stored)))
    different = [
        n
        for n, (a, b, both) in enumerate(rows, 1)
        if symmetrize(a, b, heuristic, variant="lilt") != both
    ]
    assert rows
    assert different == []
