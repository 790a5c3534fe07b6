"""What is shown of the heads of a pruned model, and of several models."""

import numpy as np
import pytest

from fairseq_normalign.heads.attention_pass import Tally
from fairseq_normalign.heads.correlation import spearman
from fairseq_normalign.heads.head_scores import ProfileOptions
from fairseq_normalign.heads.profile import Finding, Profile
from fairseq_normalign.heads.syntax import Relation
from fairseq_normalign.names import Head
from fairseq_normalign.results.result import stored_result
from fairseq_normalign.results.several import together

# The encoder's first layer has two heads, its second none, its third one.
ENCODER = [Head("encoder", 0, 0), Head("encoder", 0, 1), Head("encoder", 2, 0)]
CROSS = [Head("cross", 1, 0)]


def rare(share):
    shares = {"tokens": share, "sentences": share, "chance": 0.1}
    return {"rarest": shares, "two rarest": shares}


@pytest.fixture
def profile():
    return Profile(
        ENCODER + CROSS,
        scores={
            "confidence": dict(zip(ENCODER + CROSS, [0.5, 0.25, 0.75, 0.125], strict=True)),
            "entropy": dict(zip(ENCODER, [3.0, 1.0, 2.0], strict=True)),
            "AER": {CROSS[0]: 0.321},
        },
        positions={
            ENCODER[0]: {"offset": 1, "share": 0.934, "patterns": {"next": 0.934, "last": 0.1}}
        },
        rare={ENCODER[0]: rare(0.2), ENCODER[1]: rare(0.6)},
        rare_moved={ENCODER[0]: rare(0.3), ENCODER[1]: rare(0.4)},
        relations={"nsubj→head": Relation(50, 1, 0.3), "obj→head": Relation()},
        accuracies={
            head: {"nsubj→head": share}
            for head, share in zip(ENCODER, (0.1, 0.2, 0.4), strict=True)
        },
        branching={"left-branching": 0.25},
        steps={CROSS[0]: "output"},
        signature={"sentences": 7},
    )


TEXT = """\
Scores and roles
head         confidence  entropy  AER %  position share %  rare-token share %  position  roles
encoder.1.1       0.500    3.000      –              93.4                20.0  +1        +1 (93 %)
encoder.1.2       0.250    1.000      –                 –                60.0  –         rare (60 %)
encoder.3.1       0.750    2.000      –                 –                   –  –         \
nsubj→head 40/30
cross.2.1         0.125        –   32.1                 –                   –  –         –

Syntactic relations
relation    cases  baseline %  at  accuracy %  best head
nsubj→head     50        30.0  +1        40.0  encoder.3.1
obj→head        0           –  –            –  –

UAS in % of trees without attention: left-branching 25.0.

Rare tokens: encoder.1.2 has most maxima there: 60.0 % (40.0 % with a tenth of the tokens moved, \
10.0 % by chance) on the rarest; 60.0 % (40.0 % with a tenth of the tokens moved, 10.0 % by \
chance) on the two rarest.

Rank correlations (Spearman) between scores; low is good in entropy and AER.

== encoder self-attention (n = 3)

         confidence
entropy        0.50
"""


def test_text(profile):
    assert profile.text().startswith(TEXT)
    assert "rare" not in Profile(ENCODER, scores={"norm": {ENCODER[0]: 1.0}}).text()


def test_tables_for_programs(profile):
    """Through JSON, all numbers that people see are in one unit."""
    tables = stored_result(profile.json(), "x.json").tables()
    assert tables["heads"].rows[3][:4] == ["cross.2.1", 0.125, None, 32.1]
    assert tables["roles"].rows == [
        ["encoder.1.1", "positional", "+1 (93 %)"],
        ["encoder.1.2", "rare", "rare (60 %)"],
        ["encoder.3.1", "syntactic", "nsubj→head 40/30"],
    ]
    assert tables["steps"].rows == [["cross.2.1", "output"]]
    assert ["encoder.1.1", "last", 10.0] in tables["patterns"].rows
    assert ["encoder.1.2", "rarest", "tokens", 60.0, 40.0] in tables["rare"].rows
    assert ["encoder.1.2", "nsubj→head", 20.0] in tables["accuracies"].rows
    (rho,) = [row[3:] for row in tables["correlations"].rows if row[0].startswith("encoder sel")][
        :1
    ]
    assert rho == [pytest.approx(0.5), None, None, 3]
    assert profile.json()["signature"] == {"sentences": 7}


def grids(profile):
    """Maps by kind of attention and title."""
    options = profile.blocks()[0].options
    return {
        (option.name, grid.title): grid for option in options for grid in option.blocks[0].blocks
    }


def test_maps(profile):
    """Dark is good: low entropy, and low AER, which is in percent."""
    maps = grids(profile)
    confidence = maps["encoder self-attention", "confidence"]
    assert confidence.values == [[0.5, 0.25], [None, None], [0.75, None]]
    assert confidence.marks == [["P", "R"], ["", ""], ["S", ""]]
    assert confidence.notes[0] == ["position +1; +1 (93 %)", "rare (60 %)"]
    assert (confidence.notes[1][0], confidence.absent, confidence.low) == (
        "removed",
        "removed",
        False,
    )
    assert maps["encoder self-attention", "entropy"].low
    aer = maps["source–target attention", "AER"]
    assert (aer.values, aer.unit, aer.low) == ([[None], [32.1]], "%", True)
    assert maps["encoder self-attention", "position share"].absent == "no value"
    titles = [axes.get_title() for part in profile.figure().subfigs for axes in part.axes]
    assert "source–target attention\nAER in %" in titles


def test_a_head_of_several_functions_has_all_their_letters(profile):
    profile.rare[ENCODER[0]] = rare(0.6)
    assert grids(profile)["encoder self-attention", "confidence"].marks[0][0] == "PR"


def test_roles_depend_on_thresholds(profile):
    first, second, _ = ENCODER
    profile.positions[second] = {"offset": 0, "share": 0.5, "patterns": {"last": 0.95}}
    assert profile.roles(second) == [("last", "last (95 %)"), ("rare", "rare (60 %)")]
    profile.options = ProfileOptions(positional_threshold=0.5, rare_threshold=0.7)
    labels = [label for _, label in profile.roles(second)]
    assert labels == ["0 (50 %)", "last (95 %)"]
    profile.options = ProfileOptions(positional_threshold=0.99, syntactic_margin="absolute")
    assert profile.roles(first) == []
    assert profile.roles(ENCODER[2]) == [("syntactic", "nsubj→head 40/30")]
    assert "No head is positional: that needs 99 % of the maxima; encoder.1.1 has 93.4 %." in (
        profile.text()
    )


def test_heads_get_their_first_names():
    names = {Head("encoder", 0, 0): Head("encoder", 0, 2), Head("encoder", 0, 1): ENCODER[0]}
    tally = Tally({"mean.encoder.0.sum": np.array([[1.0, 2], [6, 4]])}, names)
    measured = Profile(list(names.values()))
    measured.add("UAS", Finding(tally.means(), {"branching": {"a": 1.0}}, {"trees": 3}))
    assert measured.scores == {"UAS": {Head("encoder", 0, 2): 0.5, ENCODER[0]: 1.5}}
    assert (measured.branching, measured.signature) == ({"a": 1.0}, {"trees": 3})


HEADS = [Head("encoder", 0, number) for number in range(3)] + [Head("cross", 1, 0)]


def scored(confidence, norm, aer) -> Profile:
    return Profile(
        HEADS,
        scores={
            "confidence": dict(zip(HEADS, confidence, strict=True)),
            "norm": dict(zip(HEADS[:3], norm, strict=True)),
            "AER": {HEADS[3]: aer},
        },
    )


ONE = scored([0.1, 0.2, 0.3, 0.5], [1.0, 2.0, 3.0], 0.3)
# The same heads in another order, and a little more of everything in the last layer.
OTHER = scored([0.3, 0.1, 0.2, 0.7], [1.0, 2.0, 3.0], 0.4)


def test_a_layer_does_not_depend_on_the_order_of_its_heads():
    several = together({"a.pt": ONE, "b.pt": OTHER}, {})
    note, layers, *_ = several.text().split("\n\n")
    assert note == "Mean ± sample deviation of 2 models."
    assert layers.splitlines()[:5] == [
        "Heads of each layer",
        "layer      heads      confidence          norm      AER %",
        "encoder.1  lowest   0.100 ±0.000  1.000 ±0.000          –",
        "encoder.1  mean     0.200 ±0.000  2.000 ±0.000          –",
        "encoder.1  highest  0.300 ±0.000  3.000 ±0.000          –",
    ]
    assert layers.splitlines()[-1] == "cross.2    highest  0.600 ±0.141             –  35.0 ±7.1"
    tables = several.tables()
    assert tables["layers"].deviations[3][2] == pytest.approx(0.2 / 2**0.5)
    assert tables["heads: b.pt"].rows[0][:2] == ["encoder.1.1", 0.3]


def test_correlations_are_those_of_each_model():
    rhos = [spearman([0.1, 0.2, 0.3], [1, 2, 3]), spearman([0.3, 0.1, 0.2], [1, 2, 3])]
    table = together({"a": ONE, "b": OTHER}, {}).tables()["correlations, encoder self-attention"]
    assert table.rows == [["norm", pytest.approx(sum(rhos) / 2)]]
    assert table.deviations[0][1] == pytest.approx(abs(rhos[0] - rhos[1]) / 2**0.5)


def test_a_correlation_that_one_model_has_not_has_no_mean():
    alike = scored([0.1, 0.1, 0.1, 0.5], [1.0, 2.0, 3.0], 0.3)
    table = together({"a": ONE, "b": alike}, {}).tables()["correlations, encoder self-attention"]
    assert table.rows == [["norm", None]]
