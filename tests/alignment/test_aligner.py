import warnings
import weakref
from itertools import product

import pytest

from fairseq_normalign import NormAligner
from fairseq_normalign.alignment.layer_choice import agreement
from fairseq_normalign.attention.extract import argmax, mutual_argmax
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.errors import InputError
from tests.conftest import ready_model


def aligner(**options) -> NormAligner:
    return NormAligner(*ready_model(), **{"layer": 1, "step": "input", **options})


def test_links_are_those_of_the_soft_matrix():
    soft = aligner().soft("w1 w2 w3", "w4 w5")
    assert soft.words.shape == (2, 3)
    links = aligner(eos="skip").align("w1 w2 w3", "w4 w5")
    assert links == [(int(row.argmax()), t) for t, row in enumerate(soft.words)]


def test_nothing_keeps_the_model_of_an_aligner_that_is_gone():
    """On a GPU, a second model may need its place."""
    one = aligner()
    one.align("w1 w2 w3", "w4 w5")
    model = weakref.ref(one.forcing.model)
    del one
    assert model() is None


def test_lists_of_words_and_order():
    pairs = [("w1 w2", "w3"), (["w4"], ["w5", "w6", "w7"]), ("", "w1")]
    many = list(aligner(eos="skip", batch_tokens=8).align_many(pairs))
    assert many == [aligner(eos="skip").align(*pair) for pair in pairs]
    assert many[2] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": "in"}, "unknown step 'in'; expected one of: input, output, auto"),
        ({"layer": 3}, "layer 3: the model has layers 1 to 2"),
        ({"head": 5}, "head 5: layer 1 has heads 1 to 4"),
        ({"layer": "auto", "head": 1}, "head 1: name its layer"),
        ({"method": "lrp", "layer": "auto"}, "lrp cannot answer for step input; expected step out"),
        ({"method": "lrp", "layer": 1}, "lrp explains the whole model; expected no layer with it"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError, match=message):
        aligner(**options)


@pytest.mark.filterwarnings("ignore:only 2 pairs")
def test_a_head_stays_where_the_step_is_open():
    pairs = [("w1 w2 w3", "w4 w5 w6"), ("w2 w3", "w5 w6")]
    decided = aligner(layer=2, head=3, step="auto").decide(pairs)
    assert decided.signature()["head"] == 3
    step = decided.decision.evidence.step
    assert decided.decision.summary().startswith(f"layer 2, step {step} chosen on 2 pairs")
    by_hand = aligner(layer=2, head=3, step=step)
    assert list(decided.align_many(pairs)) == list(by_hand.align_many(pairs))


def test_links_of_pieces():
    """Without pieces, words are pieces: the links are those of argmax; and merges play no part."""
    by_pieces = aligner(extract="piece-argmax", eos="skip")
    assert by_pieces.align("w1 w2 w3", "w4 w5") == aligner(eos="skip").align("w1 w2 w3", "w4 w5")
    assert by_pieces.align("", "w4 w5") == by_pieces.align("w1", "") == []
    assert by_pieces.signature()["merge"] == "none"
    assert by_pieces.signature()["extract"] == "piece-argmax"
    with pytest.raises(
        InputError, match=r"piece-argmax links pieces before they are merged; .* not max"
    ):
        aligner(extract="piece-argmax", source_merge="max")


def pruned(alive_heads: str, **options) -> NormAligner:
    model = ready_model(arch="transformer_normalign", alive_heads=alive_heads)
    return NormAligner(*model, **options)


@pytest.mark.parametrize("options", [{}, {"method": "lrp"}, {"layer": 1, "step": "input"}])
def test_a_model_that_no_head_of_looks_at_the_source_is_refused(options):
    with pytest.raises(InputError, match="the source–target attention has no heads left"):
        pruned("encoder.1.1 decoder.1.1", **options)


def test_a_layer_without_heads_is_refused():
    assert pruned("cross.2.1", layer=2, step="input").evidence == Evidence("norms", 1, "input")
    with pytest.raises(InputError, match="layer 1 has no heads left: it takes nothing"):
        pruned("cross.2.1", layer=1, step="input")


def test_lrp_needs_no_layer_and_no_step():
    by_relevance = aligner(method="lrp-epsilon", layer="auto", step="auto")
    assert len(by_relevance.soft("w1 w2 w3", "w4 w5").words) == 2
    assert by_relevance.evidence == Evidence("lrp-epsilon", None, "output")
    assert by_relevance.signature()["layer"] == "all"


PAIRS = [("w1 w2 w3", "w4 w5"), ("w5 w6", "w7 w8 w9"), ("w2 w4 w6 w8", "w1 w3 w5 w7")]


def test_auto_takes_the_most_mutual_layer_and_the_one_that_agrees_with_it():
    mutual = {}
    links = {}
    for place in product(("input", "output"), (1, 2)):
        step, layer = place
        softs = [aligner(layer=layer, step=step).soft(*pair) for pair in PAIRS]
        mutual[place] = sum(len(mutual_argmax(soft.words)) for soft in softs)
        links[place] = [set(argmax(soft.words, null=soft.null)) for soft in softs]
    step, layer = max(mutual, key=mutual.get)
    other = "output" if step == "input" else "input"
    agreeing = max(
        (1, 2), key=lambda candidate: agreement(links[step, layer], links[other, candidate])
    )
    with pytest.warns(UserWarning, match="only 3 pairs, and no validation set"):
        aligned = list(aligner(layer="auto", step="auto").align_many(PAIRS))
    assert list(map(set, aligned)) == links[step, layer]
    with pytest.warns(UserWarning):
        aligned = list(aligner(layer="auto", step=other).align_many(PAIRS))
    assert list(map(set, aligned)) == links[other, agreeing]


def test_what_was_decided_stays():
    auto = aligner(layer="auto", step="auto")
    with pytest.warns(UserWarning):
        auto.align(*PAIRS[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        auto.align(*PAIRS[1])
