"""Arrays of a batch against one pair run alone, computed from the definition α f(x)."""

import numpy as np
import pytest
import torch

from fairseq_normalign.attention.arrays import Arrays
from fairseq_normalign.attention.quantities import QUANTITIES
from fairseq_normalign.attention.recorder import record
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import PairReader, text_pairs
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.names import KINDS
from tests.attention.test_states import language_model, language_task
from tests.conftest import build_model, run_alone

LINES = [("w1@@ w2 w3", "w4 w5@@ w6@@ w7"), ("w3", "w9 w8"), ("", "w1"), ("w2 w2", "")]


@pytest.fixture
def reader(task):
    return PairReader(task, scheme="subword_nmt")


@pytest.fixture
def pairs(reader):
    return list(text_pairs(LINES, reader))


@pytest.fixture
def forcing(task):
    return TeacherForcing(build_model(task=task), task)


def slow(model, pair, attention: str, quantity: str, layers, heads) -> np.ndarray:
    """One pair alone, all vectors materialised."""
    with torch.no_grad(), record(model, (attention,)) as recording:
        run_alone(model, pair)
    layers_of_pair = []
    for layer in layers:
        recorded = recording[attention, layer]
        alpha = recorded.weights[0, heads].double()  # (H, T, S)
        f = torch.einsum(
            "hsd,hdc->hsc", recorded.values[0, heads].double(), recorded.out_weight[heads].double()
        )
        vectors = torch.einsum("hts,hsc->htsc", alpha, f)
        values = {
            "weights": alpha,
            "head-norms": vectors.norm(dim=-1),
            "norms": vectors.sum(0).norm(dim=-1),
            "transformed-norms": f.norm(dim=-1),
            "vectors": vectors.sum(0),
            "head-vectors": vectors,
        }
        layers_of_pair.append(values[quantity].numpy())
    return np.stack(layers_of_pair)


@pytest.mark.parametrize("attention", KINDS)
@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("layers, heads", [(None, None), ([2], [4, 1])])
def test_arrays_equal_the_slow_twin(attention, quantity, layers, heads, task, pairs):
    model = build_model(task=task)
    arrays = Arrays(
        TeacherForcing(model, task, attention=attention), quantity, layers=layers, heads=heads
    )
    chosen = ([0, 1], [0, 1, 2, 3]) if layers is None else ([1], [0, 3])
    for pair, array in zip(pairs, arrays(pairs), strict=True):
        expected = slow(model, pair, attention, quantity, *chosen)
        assert array.shape == arrays.shape(pair) == expected.shape
        assert array.dtype == np.float32
        np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-5)


def test_tokens_and_description(forcing, reader, pairs):
    arrays = Arrays(forcing, "head-norms", layers=[2])
    assert arrays.tokens(pairs[1], reader) == (["w3", "</s>"], ["</s>", "w9", "w8"])
    assert arrays.shape(pairs[1]) == (1, 4, 3, 2)
    description = arrays.description()
    assert description["axes"] == ["layer", "head", "query", "key"]
    assert (description["query"], description["key"]) == ("target", "source")
    assert (description["layers"], description["heads"]) == ([2], [1, 2, 3, 4])


def test_half_precision(forcing, pairs):
    whole, *_ = Arrays(forcing, "vectors", dtype="float32")(pairs)
    half, *_ = Arrays(forcing, "vectors", dtype="float16")(pairs)
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, whole, rtol=1e-3, atol=1e-3)
    forcing.model.decoder.layers[1].encoder_attn.v_proj.weight.data *= 1e6
    with pytest.raises(InputError, match="line 1: a value is no number, or beyond the range of f"):
        list(Arrays(forcing, "vectors", dtype="float16")(pairs))


def test_encoder_attention_needs_no_target(task, reader):
    (pair,) = text_pairs([("w1 w2", None)], reader)
    arrays = Arrays(TeacherForcing(build_model(task=task), task, attention="encoder"), "weights")
    assert [array.shape for array in arrays([pair])] == [(2, 4, 3, 3)]
    assert arrays.tokens(pair, reader) == (["w1", "w2", "</s>"], [])


def test_a_language_model_reads_the_source():
    task = language_task()
    model = language_model(task)
    reader = PairReader(task, scheme="subword_nmt")
    pairs = list(text_pairs([("w1@@ w2 w3", None), ("w4", None)], reader))
    arrays = Arrays(TeacherForcing(model, task, attention="decoder"), "norms")
    assert (arrays.description()["query"], arrays.description()["key"]) == ("source", "source")
    assert arrays.tokens(pairs[0], reader) == (["</s>", "<unk>", "w2", "w3"], [])
    for pair, array in zip(pairs, arrays(pairs), strict=True):
        with torch.no_grad(), record(model, ("decoder",)) as recording:
            model(pair.source.tokens[None])
        expected = [recording["decoder", layer].norms.summed[0].numpy() for layer in (0, 1)]
        np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-5)


BAD = {
    "layer 3: the model has layers 1 to 2": {"layers": [1, 3]},
    "layer 0: the model has layers 1 to 2": {"layers": [0]},
    "head 5: layer 1 has heads 1 to 4": {"heads": [5]},
}


@pytest.mark.parametrize("message", BAD)
def test_layers_and_heads_that_are_not_there(message, forcing):
    with pytest.raises(InputError, match=message):
        Arrays(forcing, "norms", **BAD[message])


def test_layers_with_different_numbers_of_heads_have_no_common_array(forcing):
    forcing.head_numbers = [(0, 1, 2, 3), (0, 2)]
    with pytest.raises(InputError, match=r"different numbers of heads \(\[2, 4\]\); export one la"):
        Arrays(forcing, "weights")
    assert Arrays(forcing, "weights", layers=[1]).heads == [[0, 1, 2, 3]]
    forcing.head_numbers = [(0, 1, 2, 3), ()]
    with pytest.raises(InputError, match="layer 2 has no heads left; export other layers"):
        Arrays(forcing, "weights")


def test_heads_of_a_pruned_model_are_asked_for_by_their_first_numbers(task, pairs):
    alive = "encoder.1.1 decoder.1.1 cross.1.1 cross.1.3 cross.1.4 cross.2.2 cross.2.3 cross.2.4"
    forcing = TeacherForcing(build_model("transformer_normalign", task, alive_heads=alive), task)
    arrays = Arrays(forcing, "weights", layers=[1], heads=[4, 3])
    every = Arrays(forcing, "weights", layers=[1])
    assert arrays.description()["heads"] == [3, 4]
    assert every.description()["heads"] == [1, 3, 4]
    for some, all_three in zip(arrays(pairs), every(pairs), strict=True):
        np.testing.assert_array_equal(some, all_three[:, 1:])
    both = Arrays(forcing, "weights")
    assert both.description()["heads"] == [[1, 3, 4], [2, 3, 4]]
    named = Arrays(forcing, "weights", heads=[3])
    assert named.description()["heads"] == [3]
    for one, of_both in zip(named(pairs), both(pairs), strict=True):
        np.testing.assert_array_equal(one[:, 0], np.stack([of_both[0, 1], of_both[1, 1]]))
    with pytest.raises(InputError, match="head 2: layer 1 has heads 1, 3, 4"):
        Arrays(forcing, "weights", layers=[1], heads=[2])
