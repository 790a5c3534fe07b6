"""``normalign methods``: the list of methods, and error rates of a model trained for a moment."""

import pytest

import fairseq_normalign.plugin  # noqa: F401  (lets torch.load read checkpoints)
from fairseq_normalign.attention.methods import METHODS
from fairseq_normalign.heads.head_scores import HEAD_SCORES, ranking_scores
from fairseq_normalign.results.result import read_result
from fairseq_normalign.version import __version__
from tests.conftest import rows_of, run


def test_every_method_and_every_score_is_listed():
    methods, scores = run("normalign", "methods").stdout.split("\n\n")
    for name in METHODS:
        assert f"\n  {name} " in methods
    for name in HEAD_SCORES:
        mark = " *" if name in ranking_scores() else ""
        assert f"\n  {name}{mark} " in scores
    assert "NAME:NUMBER sets epsilon (default: 1e-05)" in " ".join(methods.split())


def methods(corpus, *options, command="methods"):
    words = [corpus / "data-bin", "--cpu", "--path", *options]
    return run("normalign", command, *words)


@pytest.mark.slow
def test_the_table_has_the_numbers_that_single_alignments_score(corpus, checkpoint, text, tmp_path):
    gold = corpus / "test.talp"
    table = methods(
        corpus,
        checkpoint,
        *text,
        *("--heads", "--gold", gold, "-o", tmp_path / "t.json"),
        *("--plot", tmp_path / "t.png"),
    )
    result = read_result(tmp_path / "t.json")
    assert result.signature["gold"] == "test.talp"
    assert result.signature["version"] == __version__
    rows = rows_of(result.tables()["cells"])
    assert len(rows) == 3 * (1 + 4) * 2 * 3  # layers × (all heads, each head) × steps × methods
    assert table.stdout.count("*") == 2 * 3 + 1  # the best of each row, and what the mark means
    assert table.stdout.count("+") == 2 * 3 + 1  # what is chosen without gold
    assert sum(row["chosen layer"] for row in rows) == 2 * 3
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
    place = {"method": "weights", "layer": 3, "head": 2, "step": "output"}
    (row,) = [row for row in rows if place.items() <= row.items()]
    one = [
        *("--method", "weights", "--layer", 3, "--head", 2, "--step", "output"),
        *("--output", tmp_path / "one"),
    ]
    methods(corpus, checkpoint, *text, *one, command="align")
    score = run("normalign", "aer", gold, "-i", tmp_path / "one", "-b", "-w", 4).stdout
    assert float(score) == pytest.approx(row["AER"], abs=1e-4)


@pytest.mark.slow
def test_several_checkpoints_are_a_mean_of_their_tables(corpus, checkpoint, other, text, tmp_path):
    options = [*text, "--gold", corpus / "test.talp", "--method", "norms"]
    for name, paths in (("one", [other]), ("both", [checkpoint, other])):
        done = methods(corpus, *paths, *options, "-o", tmp_path / name)
    one, both = (read_result(tmp_path / name).tables() for name in ("one", "both"))
    assert both["cells: other.pt"].rows == one["cells"].rows
    names = ("cells: checkpoint_last.pt", "cells: other.pt", "cells")
    cells = zip(*(rows_of(both[name]) for name in names), both["cells"].deviations, strict=True)
    for first, second, mean, deviation in cells:
        assert mean["AER"] == pytest.approx((first["AER"] + second["AER"]) / 2)
        assert deviation[4] == pytest.approx(abs(first["AER"] - second["AER"]) / 2**0.5)
    assert "Mean ± sample deviation of 2 models." in done.stdout
    assert "checkpoint:checkpoint_last.pt,other.pt|gold:test.talp|ref-index:0|" in done.stderr
