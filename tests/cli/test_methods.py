"""``normalign methods``: the list of methods, and error rates of a model trained for a moment."""

import pytest

import fairseq_normalign.plugin  # noqa: F401  (lets torch.load read checkpoints)
from fairseq_normalign.attention.methods import METHODS
from fairseq_normalign.heads.head_scores import HEAD_SCORES, ranking_scores
from fairseq_normalign.results.result import read_result
from fairseq_normalign.version import __version__
from tests.conftest import run


def test_every_method_and_every_score_is_listed():
    methods, scores = run("normalign", "methods").stdout.split("\n\n")
    for name in METHODS:
        assert f"\n  {name} " in methods
    for name in HEAD_SCORES:
        mark = " *" if name in ranking_scores() else ""
        assert f"\n  {name}{mark} " in scores
    assert "NAME:NUMBER sets epsilon (default: 1e-05)" in " ".join(methods.split())


def methods(corpus, checkpoint, *options, command="methods"):
    words = [corpus / "data-bin", "--cpu", "--path", checkpoint, *options]
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
    rows = cells_of(result)
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


def cells_of(result, name="cells"):
    """The rows of a table for programs."""
    table = result.tables()[name]
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


@pytest.mark.slow
def test_several_checkpoints_are_a_mean_of_their_tables(corpus, checkpoint, other, text, tmp_path):
    options = [*text, "--gold", corpus / "test.talp", "--method", "norms"]
    for name, paths in (("a", [checkpoint]), ("b", [other]), ("ab", [checkpoint, other])):
        done = methods(corpus, paths[0], *paths[1:], *options, "-o", tmp_path / name)
    read = {name: read_result(tmp_path / name) for name in ("a", "b", "ab")}
    first, second = (cells_of(read[name]) for name in "ab")
    assert cells_of(read["ab"], "cells: checkpoint_last.pt") == first
    assert cells_of(read["ab"], "cells: other.pt") == second
    deviations = read["ab"].tables()["cells"].deviations
    means = zip(first, second, cells_of(read["ab"]), deviations, strict=True)
    for of_one, of_other, mean, deviation in means:
        assert mean["AER"] == pytest.approx((of_one["AER"] + of_other["AER"]) / 2)
        assert deviation[4] == pytest.approx(abs(of_one["AER"] - of_other["AER"]) / 2**0.5)
    assert "Mean ± sample deviation of 2 models." in done.stdout
    assert "checkpoint:checkpoint_last.pt,other.pt|gold:test.talp|ref-index:0|" in done.stderr
