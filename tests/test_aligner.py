import pytest

from fairseq_normalign import NormAligner
from fairseq_normalign.errors import InputError
from fairseq_normalign.plugin.corpus import Encoder
from fairseq_normalign.plugin.forced import Forced
from tests.conftest import ToyTask, build_model


def aligner(**options) -> NormAligner:
    task = ToyTask()
    return NormAligner(Forced(build_model(task=task), task), Encoder(), **{"layer": 1, **options})


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
        ({"layer": "auto", "step": "output"}, "layer auto works for step input and all heads only"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError, match=message):
        aligner(**options)
