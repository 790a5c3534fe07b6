"""``normalign stats`` on small random models, in this process."""

import pytest

from fairseq_normalign.results.result import read_result
from tests.cli.test_mixing import folder  # noqa: F401  (a fixture)
from tests.conftest import run


def stats(folder, *options):  # noqa: F811
    texts = ["--source-file", folder / "text.a", "--target-file", folder / "text.b"]
    return run("normalign", "stats", folder, "--path", folder / "one.pt", *texts, "--cpu", *options)


def test_tables_of_all_attentions(folder):  # noqa: F811
    done = stats(folder)
    headings = [line for line in done.stdout.splitlines() if line.startswith("==")]
    assert headings == [
        "== encoder self-attention",
        "== decoder self-attention",
        "== source–target attention",
    ]
    parts = done.stdout.split("\n\n")
    assert parts[2].startswith("Σ α over the keys of a category")
    layers = [list(map(float, line.split())) for line in parts[2].splitlines()[2:]]
    for _, *of_categories in layers:
        assert sum(of_categories) == pytest.approx(1, abs=0.002)
    rows = [line.split("  ")[0] for line in parts[8].splitlines()[2:]]
    assert rows[:6] == [
        "‖x‖, layer 1",
        *(f"‖f(x)‖, encoder.1.{head}" for head in (1, 2, 3, 4)),
        "‖x‖, layer 2",
    ]
    assert rows[-2:] == ["‖x‖, all", "‖f(x)‖, all"]
    assert parts[9].splitlines()[-1].startswith("frequency rank, ‖f(x)‖")
    assert "sentences:3|" in done.stderr


def test_json_picture_and_mixing_of_the_same_pass(folder, tmp_path):  # noqa: F811
    done = stats(folder, "--mixing", "-o", tmp_path / "x.json", "--plot", tmp_path / "x.svg")
    assert "ATTNRESLN-N, mixing ratio in %" in done.stdout
    tables = read_result(tmp_path / "x.json").tables()
    singular = [row for row in tables["cross.singular-values"].rows if row[0] == "cross.2.4"]
    assert len(singular) == 5  # of a head of width 4, and 1 → 1
    norms = tables["cross.norms"]
    assert list(norms.columns)[1:6] == ["mean", "deviation", "CV", "min", "max"]
    of_head = [row for row in tables["cross.heads"].rows if row[0] == "cross.2.4"]
    assert {row[1]: row[4] for row in of_head}["punctuation"] is None
    assert tables["encoder.ATTN-N.macro"].rows[0][-1] > 0
    drawn = (tmp_path / "x.svg").read_text()
    for text in ("source–target attention", "Σ ‖αf(x)‖", "frequency rank", "expansion rate"):
        assert text in drawn
