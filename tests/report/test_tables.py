from fairseq_normalign.alignment.aer import Counts
from fairseq_normalign.alignment.error_table import ErrorTable
from fairseq_normalign.alignment.soft import Choice, Evidence
from fairseq_normalign.report.tables import aer_table


def test_layers_by_step_and_method():
    # AER is 1 - hits / 10.
    hits = {("input", 0): 8, ("input", 1): 5, ("output", 0): 1, ("output", 1): 4}
    scores = {
        Evidence("head-norms", layer, step): Counts(10, 10, hit, hit)
        for (step, layer), hit in hits.items()
    }
    table = aer_table(
        ErrorTable(scores, {"head-norms": Choice({"input": 0, "output": 0}, "input")})
    )
    assert table.splitlines() == [
        "          align with input    align with output",
        "layer   head-norms    head-norms",
        "1             20.0*+        90.0+",
        "2             50.0          60.0*",
        "AER in %, lower is better; * marks the best of a column, + the layer that is chosen "
        "without gold.",
        "Step chosen without gold: input for head-norms.",
    ]
