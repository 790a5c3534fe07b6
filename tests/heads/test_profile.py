"""Profiles of pruned models have the heads' first names, wherever heads stand."""

from fairseq_normalign.heads.criteria import Criteria
from fairseq_normalign.heads.profile import Profile
from fairseq_normalign.heads.syntax import Accuracy
from fairseq_normalign.names import Head

PLACES = [Head("encoder", 0, 0), Head("encoder", 0, 1), Head("cross", 1, 0)]
NAMES = [Head("encoder", 0, 2), Head("encoder", 0, 3), Head("cross", 1, 1)]


def measured(heads) -> Profile:
    first, second, cross = heads
    position = {"offset": 1, "share": 0.95, "patterns": {"last": 0.92}}
    return Profile(
        heads=list(heads),
        scores={"norm": {first: 1.0, second: 2.0, cross: 3.0}},
        positions={first: position},
        rare={second: {"rarest": {"tokens": 0.9}}},
        parsed=[first, second],
        relations={"nsubj→head": Accuracy(50, 1, 0.3, [0.6, 0.1])},
        steps={cross: "output"},
        signature={"sentences": 3},
    )


def test_heads_get_their_first_names_everywhere():
    names = dict(zip(PLACES, NAMES, strict=True))
    assert measured(PLACES).renamed(names) == measured(NAMES)


def test_functions_of_heads_are_those_of_their_roles():
    profile = measured(NAMES)
    assert profile.functions(NAMES[0], Criteria()) == ["positional", "syntactic", "last"]
    assert profile.functions(NAMES[1], Criteria()) == ["rare"]
    assert profile.functions(NAMES[2], Criteria()) == []
    assert profile.roles(NAMES[0], Criteria()) == ["+1 (95 %)", "last (92 %)", "nsubj→head 60/30"]
