import json
import math
from itertools import product

import pytest

from fairseq_normalign.alignment.aer import Counts
from fairseq_normalign.alignment.error_table import ErrorTable, best_of_columns
from fairseq_normalign.attention.soft import Choice, Evidence
from fairseq_normalign.report.tables import aer_table, write_tables

ONE_LEGEND = (
    "AER in %, lower is better; * marks the best of a column, + the layer that is chosen without "
    "gold."
)
SEVERAL_LEGEND = (
    "AER in %, lower is better; * marks the best of a column, + how many models choose the layer "
    "without gold."
)


def table(hits, choice: Choice, method: str = "head-norms") -> ErrorTable:
    """AER is 1 - hits / 10."""
    scores = {
        Evidence(method, layer, step, *head): Counts(10, 10, hit, hit)
        for (step, layer, *head), hit in hits.items()
    }
    return ErrorTable(scores, {method: choice})


HITS = {("input", 0): 8, ("input", 1): 5, ("output", 0): 1, ("output", 1): 4}
ONE = table(HITS, Choice({"input": 0, "output": 0}, "input"))
OTHER = table({**HITS, ("input", 0): 6}, Choice({"input": 0, "output": 1}, "output"))


def test_layers_by_step_and_method_and_the_mean_over_layers():
    assert aer_table(ONE).splitlines() == [
        "          align with input     align with output",
        "layer          head-norms           head-norms",
        "1                    20.0*+               90.0+",
        "2                    50.0                 60.0*",
        "mean                 35.0                 75.0",
        ONE_LEGEND,
        "Step chosen without gold: input for head-norms.",
    ]


def test_several_models():
    assert aer_table(ONE, OTHER).splitlines() == [
        "          align with input     align with output",
        "layer       head-norms           head-norms",
        "1           30.0 ±14.1*+2/2       90.0 ±0.0+1/2",
        "2            50.0 ±0.0            60.0 ±0.0*+1/2",
        "mean         40.0 ±7.1            75.0 ±0.0",
        SEVERAL_LEGEND,
        "Step chosen without gold: input 1/2 and output 1/2 for head-norms.",
        "Mean ± sample deviation of 2 models.",
    ]


def test_three_methods():
    """Titles of steps stand above the columns of the step."""
    scores = {}
    for step, method in product(("input", "output"), ("weights", "norms", "head-norms")):
        scores[Evidence(method, 0, step)] = Counts(10, 10, 5, 5)
    choices = {evidence.method: Choice({"input": 0, "output": 0}, "input") for evidence in scores}
    first, second, third, *_ = aer_table(ErrorTable(scores, choices)).splitlines()
    assert first == "          align with input                          align with output"
    assert second == (
        "layer      weights         norms    head-norms       weights         norms    head-norms"
    )
    assert third == (
        "1             50.0*+        50.0*+        50.0*+        50.0*+        50.0*+        50.0*+"
    )


def test_the_mean_is_over_layers_and_not_over_heads():
    hits = {("input", 0): 8, ("input", 0, 0): 1, ("input", 0, 1): 1, ("input", 1): 6}
    of_heads = table(hits, Choice({"input": 0}, "input"))
    assert of_heads.layer_means() == {("head-norms", "input"): pytest.approx(0.3)}


def test_a_method_of_the_whole_model_has_no_mean():
    whole = table({("output", None): 7}, Choice({"output": None}, "output"), "lrp")
    assert [line.split()[0] for line in aer_table(whole).splitlines()[2:3]] == ["all"]
    assert "mean" not in aer_table(whole)
    both = ErrorTable({**ONE.scores, **whole.scores}, {**ONE.choices, **whole.choices})
    *_, mean, _, _ = aer_table(both).splitlines()
    assert mean.split() == ["mean", "35.0", "–", "75.0", "–"]


def test_the_first_of_equals_is_the_best():
    aers = {Evidence("norms", layer): aer for layer, aer in enumerate([0.5, 0.3, 0.3])}
    assert best_of_columns(aers) == {Evidence("norms", 1)}


def test_json_of_one_model_has_its_rows_and_signature(tmp_path):
    write_tables({"a.pt": ONE}, {"eos": "null"}, tmp_path / "x.json")
    contents = json.loads((tmp_path / "x.json").read_text())
    assert contents.keys() == {"signature", "models"}
    assert contents["signature"] == {"eos": "null"}
    rows = contents["models"]["a.pt"]
    assert [row["layer"] for row in rows] == [1, 2, 1, 2, "mean", "mean"]
    assert rows[4] == {
        "method": "head-norms",
        "layer": "mean",
        "head": None,
        "step": "input",
        "aer": 35.0,
    }


def test_json_of_several_models_has_each_by_itself_and_the_mean(tmp_path):
    write_tables({"a.pt": ONE, "b.pt": OTHER}, {}, tmp_path / "x.json")
    contents = json.loads((tmp_path / "x.json").read_text())
    assert contents["models"] == {"a.pt": ONE.as_json(), "b.pt": OTHER.as_json()}
    first = contents["mean"][0]
    assert first.pop("deviation") == pytest.approx(math.sqrt(200))
    assert first == {
        "method": "head-norms",
        "layer": 1,
        "head": None,
        "step": "input",
        "aer": 30.0,
        "chosen_without_gold": 2,
        "better_step_without_gold": 1,
    }
    assert contents["mean"][-1]["layer"] == "mean"


def test_json_of_models_that_nothing_is_known_of(tmp_path):
    nothing = ErrorTable({Evidence(): Counts()}, {"norms": Choice({"input": 0}, "input")})
    write_tables({"a.pt": nothing, "b.pt": nothing}, {}, tmp_path / "x.json")
    contents = json.loads((tmp_path / "x.json").read_text())
    assert contents["mean"][0]["aer"] == nothing.as_json()[0]["aer"]
