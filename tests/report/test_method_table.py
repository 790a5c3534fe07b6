from fairseq_normalign.alignment.aer import Counts
from fairseq_normalign.alignment.error_table import Cost, Costs, ErrorTable, best_of_methods
from fairseq_normalign.attention.soft import Choice, Evidence
from fairseq_normalign.report.method_table import method_table

SCORES = {
    Evidence("norms", 0, "input"): Counts(10, 20, 9, 6),  # AER 50.0
    Evidence("norms", 1, "input"): Counts(10, 20, 9, 9),  # AER 40.0
    Evidence("norms", 1, "input", 2): Counts(10, 20, 10, 10),  # a head: AER 33.3
    Evidence("lrp", None, "output"): Counts(10, 20, 8, 7),  # AER 50.0
}
CHOICES = {"norms": Choice({"input": 0}, "input"), "lrp": Choice({"output": None}, "output")}
COSTS = Costs(100, 4000, Cost(2.0, 80.0), {"norms": Cost(2.5, 90.4), "lrp": Cost(60.0, 1234.0)})
ONE = ErrorTable(
    SCORES,
    CHOICES,
    dict.fromkeys(SCORES, (0.4, 0.605)),
    {"norms": "argmax", "lrp": "argmax"},
    COSTS,
)
OTHER = ONE._replace(
    scores={**SCORES, Evidence("norms", 0, "input"): Counts(10, 20, 10, 8)},
    choices={**CHOICES, "norms": Choice({"input": 1}, "input")},
)


def words(line: str) -> str:
    """A line with single blanks, which columns do not move."""
    return " ".join(line.split())


def test_a_line_for_each_method():
    first, norms, lrp, *legend = method_table(ONE).splitlines()
    assert words(first) == "method chosen AER 95% P R best by gold AER × forward s/1,000 MB"
    assert words(norms) == "norms 1 input 50.0 40.0–60.5 90.0 30.0 2 input 40.0 1.2 2.5 90"
    assert words(lrp) == ("lrp all output 50.0 40.0–60.5 80.0 35.0 all output 50.0 30.0 60.0 1234")
    assert len(first) == len(norms) == len(lrp)
    assert legend == [
        "AER in % with its bootstrap interval, P and R, of the layer and step that are chosen "
        "without gold.",
        "Best by gold: the layer and step of lowest AER, which gold alone can tell.",
        "Cost of one method by itself at one layer, on 100 pairs with --max-tokens 4000: time in "
        "forward",
        "passes, seconds for 1,000 pairs, memory at most above the model. A plain forward pass: "
        "2.0 s, 80 MB.",
    ]


def test_several_models_have_deviations_and_no_interval():
    first, norms, *_, last = method_table(ONE, OTHER).splitlines()
    assert words(first) == "method chosen AER P R best by gold AER × forward s/1,000 MB"
    assert words(norms) == (
        "norms 1 input 1/2, 2 input 1/2 45.0 ±7.1 90.0 ±0.0 37.5 ±10.6 2 input 40.0 ±0.0 1.2 2.5 90"
    )
    assert "interval" not in method_table(ONE, OTHER)
    assert last == "Mean ± sample deviation of 2 models."


def test_without_costs_and_intervals():
    first, norms, *_ = method_table(ErrorTable(SCORES, CHOICES)).splitlines()
    assert words(first) == "method chosen AER P R best by gold AER"
    assert words(norms) == "norms 1 input 50.0 90.0 30.0 2 input 40.0"


def test_memory_that_is_not_known():
    unknown = Costs(100, 4000, Cost(2.0, None), dict.fromkeys(CHOICES, Cost(2.5, None)))
    lines = method_table(ONE._replace(costs=unknown)).splitlines()
    assert lines[1].split()[-1] == "–"
    assert lines[-1].endswith("A plain forward pass: 2.0 s, – MB.")


def test_json_has_interval_rule_and_cost_of_each_cell():
    first, second, head, *_ = ONE.as_json()
    assert first["interval"] == [40.0, 60.5]
    assert first["extract"] == "argmax"
    assert first["cost"] == {
        "forward_passes": 1.25,
        "seconds_per_1000_pairs": 2.5,
        "megabytes": 90.4,
        "pairs": 100,
        "batch_tokens": 4000,
    }
    best = [first["best_by_gold"], second["best_by_gold"], head["best_by_gold"]]
    assert best == [False, True, False]


def test_the_best_of_a_method_is_a_layer():
    aers = {evidence: counts.aer for evidence, counts in SCORES.items()}
    assert best_of_methods(aers)["norms"] == Evidence("norms", 1, "input")
