import pytest

from fairseq_normalign import NormAligner
from fairseq_normalign.alignment.agreement import agreement
from fairseq_normalign.errors import InputError
from fairseq_normalign.plugin.corpus import Encoder
from fairseq_normalign.plugin.forced import Forced
from tests.conftest import ToyTask, build_model


def aligner(**options) -> NormAligner:
    task = ToyTask()
    return NormAligner(Forced(build_model(task=task), task), Encoder(task), **{"layer": 1, **options})


def test_links_are_those_of_the_soft_matrix():
    soft = aligner().soft("w1 w2 w3", "w4 w5")
    assert soft.words.shape == (2, 3)
    links = aligner(eos="skip").align("w1 w2 w3", "w4 w5")
    assert links == [(int(row.argmax()), t) for t, row in enumerate(soft.words)]


def test_lists_of_words_and_order():
    pairs = [("w1 w2", "w3"), (["w4"], ["w5", "w6", "w7"]), ("", "w1")]
    many = list(aligner(eos="skip").align_many(pairs, batch_tokens=8))
    assert many == [aligner(eos="skip").align(*pair) for pair in pairs]
    assert many[2] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "norm"}, "unknown method 'norm'; expected one of: weights, norms, head-norms"),
        ({"step": "in"}, "unknown step 'in'; expected one of: input, output"),
        ({"layer": 3}, "layer 3: the model has layers 1 to 2"),
        ({"layer": 0}, "layer 0: the model has layers 1 to 2"),
        ({"head": 5}, "head 5: the model has heads 1 to 4"),
        ({"layer": "auto", "head": 1}, "head 1 of which layer"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError, match=message):
        aligner(**options)


def test_auto_takes_the_layers_whose_steps_agree_most():
    pairs = [("w1 w2 w3", "w4 w5"), ("w5 w6", "w7 w8 w9")]
    links = {
        (step, layer): [set(found) for found in aligner(layer=layer, step=step).align_many(pairs)]
        for step in ("input", "output")
        for layer in (1, 2)
    }
    table = {(i, o): agreement(links["input", i], links["output", o]) for i in (1, 2) for o in (1, 2)}
    best = max(table, key=table.get)
    for step, layer in zip(("input", "output"), best):
        assert [set(found) for found in aligner(layer="auto", step=step).align_many(pairs)] == links[step, layer]


def test_auto_on_nothing():
    assert list(aligner(layer="auto").align_many([])) == []
