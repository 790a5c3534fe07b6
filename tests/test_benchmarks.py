"""The benchmarks run. Their figures are never asserted: those are for a quiet machine."""

import json
import math

import pytest

from benchmarks import __main__ as command
from benchmarks import alti, combination, gradients, heads, large, mixing, norms, relevance
from benchmarks.models import Shape
from benchmarks.timing import format_row

SMALL = Shape("small", layers=2, width=16, heads=4, inner=32, vocabulary=40, batch=2, length=5)

BENCHMARKS = {
    "extraction": lambda: norms.extraction([SMALL], rounds=2),
    "early": lambda: norms.early([SMALL], rounds=2),
    "computation": lambda: norms.computation([SMALL], rounds=2),
    "throughput": lambda: norms.throughput(SMALL, 6, tokens=(1, 100), rounds=1),
    "gated": lambda: heads.gated([SMALL], rounds=2),
    "pruned": lambda: heads.pruned([SMALL], rounds=1),
    "ablation": lambda: heads.ablation([SMALL], rounds=1),
    "relevance": lambda: relevance.relevance([SMALL], rounds=1),
    "methods": lambda: relevance.methods([SMALL], rounds=1),
    "gradients": lambda: gradients.gradients([SMALL], [SMALL], rounds=1),
    "combination": lambda: combination.combination([SMALL], size=6, rounds=1),
    "interactive": lambda: combination.interactive([SMALL], size=6, rounds=1),
    "alti": lambda: alti.alti([SMALL], rounds=2),
    "mixing": lambda: mixing.mixing([SMALL], rounds=2),
    "large": lambda: large.large(SMALL, sizes=(4, 8)),
    "samples": lambda: large.samples(SMALL, sizes=(4, 8)),
    "corpus": lambda: norms.corpus([(SMALL, 4), (SMALL, 8)]),
}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_ratios_are_finite(name):
    rows = list(BENCHMARKS[name]())
    assert len({row.what for row in rows}) == len(rows) > 0
    for row in rows:
        assert all(
            math.isfinite(number) and number > 0 for number in (row.ours, row.reference, row.ratio)
        )
        assert f"| {row.what} |" in format_row(row)


def test_the_command_prints_a_table_and_writes_json(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command, "BENCHMARKS", BENCHMARKS)
    command.main(["computation", "--json", str(tmp_path / "results.json")])
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["machine"]["cores"] >= 1
    printed = capsys.readouterr().out
    assert all(row["what"] in printed for row in results["rows"])
