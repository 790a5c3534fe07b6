"""What is shown of the heads of a pruned model, and of several models."""

import numpy as np
import pytest

from fairseq_normalign.heads.attention_pass import Tally
from fairseq_normalign.heads.attention_scores import Positions
from fairseq_normalign.heads.correlation import spearman
from fairseq_normalign.heads.head_scores import ProfileOptions
from fairseq_normalign.heads.profile import Finding, Profile, role
from fairseq_normalign.heads.syntax import Relation, relation_tables, syntactic_roles
from fairseq_normalign.names import Head
from fairseq_normalign.results.result import stored_result
from fairseq_normalign.results.several import together

# The encoder's first layer has two heads, its second none, its third one.
ENCODER = [Head("encoder", 0, 0), Head("encoder", 0, 1), Head("encoder", 2, 0)]
CROSS = [Head("cross", 1, 0)]


ACCURACIES = dict(zip(ENCODER, (0.1, 0.2, 0.4), strict=True))
RELATIONS = {"nsubj→head": Relation(50, 1, 0.3, ACCURACIES), "obj→head": Relation()}
SCORES = {
    "confidence": Finding(dict(zip(ENCODER + CROSS, [0.5, 0.25, 0.75, 0.125], strict=True))),
    "entropy": Finding(dict(zip(ENCODER, [3.0, 1.0, 2.0], strict=True))),
    "AER": Finding({CROSS[0]: 0.321}),
}


def of_positions(threshold=0.9):
    """The first head looks at the next word, the second at itself or at </s>."""
    positions = Positions(ProfileOptions(positional_threshold=threshold))
    positions.score = "positions"
    counts = np.array([[100, 66, 0, 934], [950, 500, 250, 250]])  # first, of the last token
    return positions.finding(Tally({"heads": ENCODER}, {"positions.encoder.0.sum": counts}))


def of_rare(*shares):
    by_head = dict(zip(ENCODER, shares, strict=False))
    roles = {head: role("rare", "rare", share, 0.5) for head, share in by_head.items()}
    return Finding(by_head, roles=roles)


def of_syntax(margin="relative"):
    return Finding(roles=syntactic_roles(RELATIONS, margin), blocks=relation_tables(RELATIONS))


@pytest.fixture
def profile():
    by_score = {
        **SCORES,
        "positions": of_positions(),
        "rare": of_rare(0.2, 0.6),
        "UAS": of_syntax(),
    }
    return Profile(ENCODER + CROSS, by_score, {"sentences": 7})


TEXT = """\
Scores and roles
head         confidence  entropy  AER %  position share %  rare-token share %  position  roles
encoder.1.1       0.500    3.000      –              93.4                20.0  +1        +1 (93 %)
encoder.1.2       0.250    1.000      –              50.0                60.0  0         \
last (95 %), rare (60 %)
encoder.3.1       0.750    2.000      –                 –                   –  –         \
nsubj→head 40/30
cross.2.1         0.125        –   32.1                 –                   –  –         –

Syntactic relations
relation    cases  baseline %  at  accuracy %  best head
nsubj→head     50        30.0  +1        40.0  encoder.3.1
obj→head        0           –  –            –  –

Rank correlations (Spearman) between scores; low is good in entropy and AER.

== encoder self-attention (n = 3)

         confidence
entropy        0.50
"""


def test_text(profile):
    assert profile.text().startswith(TEXT)
    assert "rare" not in Profile(ENCODER, {"norm": Finding({ENCODER[0]: 1.0})}).text()


def test_tables_for_programs(profile):
    """Through JSON, all numbers that people see are in one unit."""
    tables = stored_result(profile.json(), "x.json").tables()
    assert tables["heads"].rows[3][:4] == ["cross.2.1", 0.125, None, 32.1]
    assert tables["roles"].rows == [
        ["encoder.1.1", "positional", "+1 (93 %)"],
        ["encoder.1.2", "last", "last (95 %)"],
        ["encoder.1.2", "rare", "rare (60 %)"],
        ["encoder.3.1", "syntactic", "nsubj→head 40/30"],
    ]
    assert ["encoder.1.1", "last", 10.0] in tables["patterns"].rows
    assert ["encoder.1.2", "nsubj→head", 20.0] in tables["accuracies"].rows
    (rho,) = [row[3:] for row in tables["correlations"].rows if row[0].startswith("encoder sel")][
        :1
    ]
    assert rho == [pytest.approx(0.5), None, None, 3]
    assert profile.json()["signature"] == {"sentences": 7}


def test_roles_depend_on_thresholds():
    first, second, third = ENCODER
    found = of_positions(0.5)
    assert found.roles[second] == [("positional", "0 (50 %)"), ("last", "last (95 %)")]
    assert found.blocks[0].name == "patterns"  # and no note
    found = of_positions(0.99)
    assert found.roles[first] == []
    assert found.blocks[0].text == (
        "No head is positional: that needs 99 % of the maxima; encoder.1.1 has 93.4 %."
    )
    assert of_syntax("absolute").roles == {third: [("syntactic", "nsubj→head 40/30")]}


HEADS = [Head("encoder", 0, number) for number in range(3)] + [Head("cross", 1, 0)]


def scored(confidence, norm, aer) -> Profile:
    return Profile(
        HEADS,
        {
            "confidence": Finding(dict(zip(HEADS, confidence, strict=True))),
            "norm": Finding(dict(zip(HEADS[:3], norm, strict=True))),
            "AER": Finding({HEADS[3]: aer}),
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
