"""Layers without gold: what decides, and on which pairs. The rule itself is in test_aligner."""

import pytest

from fairseq_normalign.alignment.layer_choice import FEW, choose_layers, decisive_pairs
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
    assert choice == ({"output": None}, "output")
