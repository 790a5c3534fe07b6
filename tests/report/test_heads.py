import json

import numpy as np
import pytest

from fairseq_normalign.heads.correlation import Correlation
from fairseq_normalign.heads.criteria import Criteria
from fairseq_normalign.heads.profile import Profile
from fairseq_normalign.heads.syntax import Accuracy
from fairseq_normalign.names import Head
from fairseq_normalign.report.head_maps import extent, grid, picture
from fairseq_normalign.report.heads import (
    as_json,
    as_text,
    correlations_table,
    heads_table,
    rare_line,
    relations_table,
)

# A pruned model: the encoder's first layer has two heads, its second none, its third one.
ENCODER = [Head("encoder", 0, 0), Head("encoder", 0, 1), Head("encoder", 2, 0)]
CROSS = [Head("cross", 1, 0)]


def rare(share):
    return {
        rank: {"tokens": share, "sentences": share, "chance": 0.1}
        for rank in ("rarest", "two rarest")
    }


@pytest.fixture
def profile():
    return Profile(
        ENCODER + CROSS,
        scores={
            "confidence": dict(zip(ENCODER + CROSS, [0.5, 0.25, 0.75, 0.125], strict=True)),
            "norm": dict(zip(ENCODER, [3.0, 1.0, 2.0], strict=True)),
            "AER": {CROSS[0]: 0.321},
        },
        positions={
            ENCODER[0]: {"offset": 1, "share": 0.934, "patterns": {"next": 0.934, "last": 0.1}}
        },
        rare={ENCODER[0]: rare(0.2), ENCODER[1]: rare(0.6)},
        rare_moved={ENCODER[0]: rare(0.3), ENCODER[1]: rare(0.4)},
        relations={
            "nsubj→head": Accuracy(50, 1, 0.3, [0.1, 0.2, 0.4]),
            "obj→head": Accuracy(0, None, None, []),
        },
        parsed=ENCODER,
        branching={"left-branching": 0.25},
        steps={CROSS[0]: "output"},
    )


def test_tables_have_columns_of_what_is_known(profile):
    assert heads_table(profile, "encoder", Criteria()).splitlines() == [
        "encoder self-attention",
        "head         confidence   norm   position  role",
        "encoder.1.1       0.500  3.000  +1 (93 %)  +1 (93 %)",
        "encoder.1.2       0.250  1.000          –  rare (60 %)",
        "encoder.3.1       0.750  2.000          –  nsubj→head 40/30",
    ]
    assert heads_table(profile, "cross", Criteria()).splitlines() == [
        "source–target attention",
        "head       confidence   AER  role",
        "cross.2.1       0.125  32.1",
    ]


def test_relations(profile):
    assert relations_table(profile).splitlines() == [
        "syntax: accuracy in %",
        "relation    cases  baseline  at  best  head",
        "nsubj→head     50      30.0  +1  40.0  encoder.3.1",
        "obj→head        0         –   –     –  –",
        "UAS in % of trees without attention: left-branching 25.0",
    ]


def test_the_head_for_rare_tokens(profile):
    assert rare_line(profile).startswith(
        "rare tokens: encoder.1.2 has most maxima there: 60.0 % (40.0 % with a tenth of "
        "the tokens moved, 10.0 % by chance) on the"
    )


def test_correlations_as_a_triangle():
    tables = {
        ("a", "b"): Correlation(0.5, 4),
        ("a", "c"): Correlation(-1.0, 3),
        ("b", "c"): Correlation(None, 2),
        ("a", "d"): Correlation(None, 0),
        ("b", "d"): Correlation(None, 0),
        ("c", "d"): Correlation(None, 0),
    }
    assert correlations_table("all", tables).splitlines() == [
        "all (n = 3 to 4)",
        "       a  b",
        "b  +0.50",
        "c  -1.00  –",
    ]
    assert (
        correlations_table("all", {("a", "b"): Correlation(None, 2)})
        == "all: no rank correlation is defined"
    )


def test_text_has_all_parts(profile):
    text = as_text(profile, Criteria())
    assert "encoder (n = 3)\n      confidence\nnorm       +0.50" in text
    assert "cross: no rank correlation is defined" in text
    assert "all (n = 3)" in text


def test_text_of_scores_alone():
    text = as_text(
        Profile(ENCODER, scores={"norm": dict(zip(ENCODER, [3.0, 1.0, 2.0], strict=True))}),
        Criteria(),
    )
    assert text.splitlines()[1] == "head          norm  role"
    assert "syntax" not in text
    assert "rare" not in text


def test_json_is_complete(profile):
    written = json.loads(
        json.dumps(as_json(profile, Criteria(), {"sentences": 7}), allow_nan=False)
    )
    assert written["signature"]["sentences"] == 7
    first, second, _, cross = written["heads"]
    assert first["head"] == "encoder.1.1"
    assert first["scores"] == {"confidence": 0.5, "norm": 3.0}
    assert first["roles"] == ["+1 (93 %)"]
    assert first["functions"] == ["positional"]
    assert first["position"]["patterns"] == {"next": 0.934, "last": 0.1}
    assert second["rare"]["rarest"]["tokens"] == 0.6
    assert second["rare_moved"]["rarest"]["tokens"] == 0.4
    assert second["relations"] == {"nsubj→head": 0.2}
    assert (cross["scores"]["AER"], cross["step"]) == (0.321, "output")
    assert written["relations"]["nsubj→head"] == {"cases": 50, "baseline": 0.3, "offset": 1}
    assert written["relations"]["obj→head"] == {"cases": 0, "baseline": None, "offset": None}
    expected = {
        "scores": ["confidence", "norm"],
        "rho": pytest.approx(0.5),
        "heads": 3,
        "interval": None,
    }
    assert expected in written["correlations"]["encoder"]
    assert written["trees"] == {"left-branching": 0.25}


def test_the_grid_of_a_pruned_model(profile):
    shape = extent(ENCODER)
    values = grid(profile.scores["norm"], ENCODER, shape)
    np.testing.assert_array_equal(values, [[3, 1], [np.nan, np.nan], [2, np.nan]])
    assert extent([*ENCODER, Head("cross", 3, 6)]) == (4, 7)


def test_picture(profile):
    figure = picture(profile, Criteria())
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles == [
        "encoder: confidence",
        "encoder: norm",
        "encoder: functions",
        "cross: confidence",
        "cross: AER",
    ]
    (functions,) = [axes for axes in figure.axes if axes.get_title() == "encoder: functions"]
    letters = {text.get_position(): text.get_text() for text in functions.texts}
    assert letters == {(0, 0): "P", (1, 0): "R", (0, 2): "S"}  # (head, layer) from 0
    cells = {(patch.get_x() + 0.5, patch.get_y() + 0.5) for patch in functions.patches}
    assert cells == {(0, 0), (1, 0), (0, 2)}  # no cell where heads were removed
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "P: positional",
        "S: syntactic",
        "R: rare",
        "L: last",
        "several",
        "none",
    ]


def test_a_head_of_several_functions_has_all_their_letters(profile):
    profile.rare[ENCODER[0]] = rare(0.6)
    functions = picture(profile, Criteria()).axes
    letters = [text.get_text() for axes in functions for text in axes.texts]
    assert "PR" in letters


def test_a_picture_without_roles_has_scores_alone(profile):
    plain = Profile(profile.heads, scores=profile.scores)
    figure = picture(plain, Criteria())
    assert not figure.legends
    assert not any("functions" in axes.get_title() for axes in figure.axes)
