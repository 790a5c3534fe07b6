"""The table of error rates: what is shown, and its cells against one alignment after the other."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fairseq_normalign import NormAligner
from fairseq_normalign.alignment.aer import Counts, count, interval
from fairseq_normalign.alignment.aligner import AlignOptions
from fairseq_normalign.alignment.error_table import ErrorTable, error_table
from fairseq_normalign.alignment.layer_choice import FEW
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.results.several import together
from fairseq_normalign.text.links import GoldFile
from tests.conftest import ready_model


def table(hits, *chosen: tuple, method: str = "head-norms") -> ErrorTable:
    """AER is 1 - hits / 10; the chosen layers are given as the hits are."""
    scores = {
        Evidence(method, layer, step, *head): Counts(10, 10, hit, hit)
        for (step, layer, *head), hit in hits.items()
    }
    return ErrorTable(scores, {method: [Evidence(method, layer, step) for step, layer in chosen]})


HITS = {("input", 0): 8, ("input", 1): 5, ("output", 0): 1, ("output", 1): 4}
ONE = table(HITS, ("input", 0), ("output", 0))
OTHER = table({**HITS, ("input", 0): 6}, ("output", 1), ("input", 0))
SCORES = {
    Evidence("norms", 0, "input"): Counts(10, 20, 9, 6),  # AER 50.0
    Evidence("norms", 1, "input"): Counts(10, 20, 9, 9),  # AER 40.0
    Evidence("norms", 1, "input", 2): Counts(10, 20, 10, 10),  # a head: AER 33.3
    Evidence("lrp", None, "output"): Counts(10, 20, 8, 7),  # AER 50.0
}
CHOSEN = {"norms": [Evidence("norms", 0, "input")], "lrp": [Evidence("lrp", None, "output")]}
COSTS = {
    "(forward pass)": [1.0, 2.0, 80.0],
    "norms": [1.25, 2.5, 90.4],
    "lrp": [30.0, 60.0, 1234.0],
}
FULL = ErrorTable(
    SCORES, CHOSEN, dict.fromkeys(SCORES, (0.4, 0.605)), {"norms": "argmax", "lrp": "argmax"}, COSTS
)


def test_layers_by_method_and_step_and_the_mean_over_layers():
    assert ONE.text().split("\n\n")[0].splitlines() == [
        "AER by layer in %",
        "method and step           1       2  mean",
        "head-norms, input   20.0 *+  50.0    35.0",
        "head-norms, output  90.0 +   60.0 *  75.0",
    ]


def test_several_models_say_how_many_of_them_choose_a_layer():
    """Layer 1 is the best by output of no model, and one of two chooses it."""
    assert together({"a": ONE, "b": OTHER}, {}).text().split("\n\n")[1].splitlines() == [
        "AER by layer in %",
        "method and step                   1                2       mean",
        "head-norms, input   30.0 ±14.1 *+    50.0 ±0.0        40.0 ±7.1",
        "head-norms, output   90.0 ±0.0 +1/2  60.0 ±0.0 *+1/2  75.0 ±0.0",
    ]


def test_a_method_of_the_whole_model_has_a_column_and_no_mean():
    whole = table({("output", None): 7}, ("output", None), method="lrp")
    assert whole.tables()["layers"].columns == ["method and step", "all"]
    both = ErrorTable({**ONE.scores, **whole.scores}, {**ONE.chosen, **whole.chosen})
    layers = both.tables()["layers"]
    assert layers.columns == ["method and step", "1", "2", "all", "mean"]
    assert layers.rows[-1] == ["lrp, output", None, None, 30.0, None]


def test_a_row_for_each_method():
    methods = FULL.tables()["methods"]
    columns = ["method", "chosen", "AER", "95 % from", "to", "P", "R", "best by gold", "its AER"]
    assert methods.columns == [*columns, "× forward", "s/1,000", "MB"]
    assert methods.rows == [
        ["norms", "1 input", 50.0, 40.0, 60.5, 90.0, 30.0, "2 input", 40.0, 1.25, 2.5, 90.4],
        ["lrp", "all output", 50.0, 40.0, 60.5, 80.0, 35.0, "all output", 50.0, 30.0, 60.0, 1234.0],
        ["(forward pass)", *[None] * 8, 1.0, 2.0, 80.0],
    ]
    assert FULL.findings == ["AER is 50.0 % by norms (layer 1 input, chosen without gold)."]
    assert "on the first 100 pairs" in FULL.text()
    caption = FULL.figure().get_supxlabel()
    assert caption.startswith("◎ chosen without gold. Dashed: step output, ")


def test_methods_of_several_models():
    other = replace(
        FULL,
        scores={**SCORES, Evidence("norms", 0, "input"): Counts(10, 20, 10, 8)},
        chosen={**CHOSEN, "norms": [Evidence("norms", 1, "input")]},
    )
    methods = together({"a": FULL, "b": other}, {}).tables()["methods"]
    assert methods.rows[0][:3] == ["norms", "1 input 1/2, 2 input 1/2", 45.0]
    assert methods.deviations[0][2] == pytest.approx(math.sqrt(50))


def test_models_that_nothing_is_known_of():
    nothing = ErrorTable({Evidence(): Counts()}, {"norms": [Evidence("norms", 0, "input")]})
    assert nothing.findings == []
    assert together({"a.pt": nothing, "b.pt": nothing}, {}).tables()["cells"].rows[0][4] is None


# The table of error rates against one alignment after the other.

TEXTS = [("w1@@ w2 w3", "w4 w5@@ w6"), ("w5 w6", "w7 w8@@ w9"), ("", "w1"), ("w2 w4 w6", "w1 w3")]
METHODS = ["norms", "shift-att", "lrp-epsilon", "alti-rollout"]


@pytest.fixture(scope="module")
def model():
    return NormAligner(*ready_model(scheme="subword_nmt"))


@pytest.fixture
def gold(tmp_path):
    path = tmp_path / "gold"
    path.write_text("0-0 1p1\n0-0 1-1\n\n2-1 0p0\n" * (FEW // 4))
    return GoldFile(path)


def pairs(model) -> list:
    return [model.reader.pair(*text, "here") for text in TEXTS] * (FEW // 4)


def one_by_one(model, golds, evidence: Evidence) -> np.ndarray:
    """The counts of each pair, of an alignment that is made for itself, (N, 4)."""
    method, layer, step, head, *_ = evidence
    aligner = NormAligner(
        model.forcing,
        model.reader,
        method=method,
        layer="auto" if layer is None else layer + 1,
        step=step,
        head=None if head is None else head + 1,
    )
    links = aligner.links_many(pairs(model))
    return np.array(
        [count(set(found), of_gold) for found, of_gold in zip(links, golds, strict=True)]
    )


def test_cells_are_what_single_alignments_score(model, gold):
    table = error_table(model, pairs(model), gold, METHODS, options=AlignOptions(), heads=True)
    for evidence, counts in table.scores.items():
        expected = one_by_one(model, list(gold), evidence)
        assert counts == Counts(*expected.sum(axis=0)), evidence
        assert table.intervals[evidence] == pytest.approx(interval(expected)), evidence
    with_heads = {evidence.method for evidence in table.scores if evidence.head is not None}
    assert with_heads == {"norms", "shift-att"}
    assert table.rules["shift-att"] == "piece-argmax"
    assert table.rules["norms"] == "argmax"


def test_layers_are_chosen_as_align_chooses_them(model, gold):
    table = error_table(model, pairs(model), gold, METHODS, options=AlignOptions())
    for method in METHODS:
        chosen, _ = NormAligner(model.forcing, model.reader, method=method).chosen(pairs(model))
        assert table.chosen[method] == chosen


def test_few_pairs_ask_the_validation_set(model, tmp_path, monkeypatch):
    path = tmp_path / "gold"
    path.write_text("0-0\n")
    monkeypatch.setattr(
        "fairseq_normalign.alignment.layer_choice.binarised_pairs",
        lambda subset, reader: iter(pairs(model)),
    )
    table = error_table(
        model, pairs(model)[:1], GoldFile(str(path)), ["norms", "lrp"], options=AlignOptions()
    )
    chosen, _ = NormAligner(model.forcing, model.reader).chosen(pairs(model))
    assert table.chosen == {"norms": chosen, "lrp": [Evidence("lrp", None, "output")]}
