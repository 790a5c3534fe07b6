"""Layers without gold: what decides, and on which pairs. The rule itself is in test_aligner."""

import warnings

import pytest

from fairseq_normalign.analysis.aligner import NormAligner
from fairseq_normalign.analysis.combined import CombinedAligner
from fairseq_normalign.analysis.layer_choice import (
    FEW,
    choose_layers,
    decisive_pairs,
    warn_of_noise,
)
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import PairReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.plugin.pruned import remove_heads
from tests.conftest import ToyTask, build_model


@pytest.fixture
def task():
    return ToyTask()


@pytest.fixture
def pairs(task):
    reader = PairReader(task)
    return [reader.pair("w1 w2 w3", "w4 w5", f"line {number}") for number in range(FEW)]


def test_enough_pairs_decide_by_themselves(task, pairs):
    forcing = TeacherForcing(build_model(task=task), task)
    assert decisive_pairs(pairs, PairReader(task), forcing) is pairs
    with pytest.warns(UserWarning, match=f"decided on {FEW - 1} pairs, as there is no validation"):
        decisive_pairs(pairs[1:], PairReader(task), forcing)


def test_layers_without_heads_are_no_candidates(task, pairs):
    model = build_model("transformer_normalign", task)
    remove_heads(model, "encoder.1.1 cross.2.3")
    choice = choose_layers(TeacherForcing(model, task), pairs[:3])
    assert set(choice.layers.values()) == {1}


def test_no_head_is_left(task, pairs):
    model = build_model("transformer_normalign", task)
    remove_heads(model, "encoder.1.1")
    with pytest.raises(InputError, match="the source–target attention has no heads left"):
        choose_layers(TeacherForcing(model, task), pairs[:3])


def test_a_method_of_the_whole_model_has_nothing_to_choose(task, pairs):
    forcing = TeacherForcing(build_model(task=task), task)
    choice = choose_layers(forcing, [], "lrp-epsilon")
    assert choice[:2] == ({"output": None}, "output")


def test_links_of_chance_are_told():
    """Few pairs may disagree by bad luck."""
    for agreement, pairs in ((0.11, 500), (0.06, 20), (-1.0, 1)):
        with pytest.warns(UserWarning, match="model de-en: its words choose each other no more"):
            warn_of_noise(agreement, pairs, "de-en")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for agreement, pairs in ((0.12, 500), (0.08, 20), (-0.8, 1)):
            warn_of_noise(agreement, pairs, "de-en")


@pytest.mark.parametrize("combine", [None, "product", "learned"])
def test_a_model_that_is_not_trained_is_told(task, combine):
    """All target words of a random model choose much the same source words."""
    one = NormAligner(TeacherForcing(build_model(task=task), task), PairReader(task))
    aligner = one if combine is None else CombinedAligner(one, combine=combine)
    texts = [(" ".join(f"w{(n + k) % 29}" for k in range(9)),) * 2 for n in range(FEW)]
    with pytest.warns(UserWarning, match="model a-b: its words choose each other no more than"):
        decided = aligner.decide(texts)
    assert decided.agreement < 0
