"""States of layers against fairseq's own outputs, and layers run by hand."""

from argparse import Namespace
from functools import partial

import pytest
import torch
from fairseq.tasks.language_modeling import LanguageModelingTask

from fairseq_normalign.attention.states import States
from fairseq_normalign.host.pairs import PairReader, text_pairs
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from tests.conftest import ToyTask, build_model

LINES = [("w1@@ w2 w3 w4", "w4 w5@@ w6@@ w7"), ("w3 w5", "w9 w8"), ("w2 w2 w1", "w1")]

assert_close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)


def language_task(**options):
    dictionary = ToyTask().source_dictionary
    args = Namespace(data="nowhere", tokens_per_sample=64, **options)
    return LanguageModelingTask(args, dictionary)


def language_model(task):
    sizes = {"decoder_input_dim": 16, "decoder_output_dim": 16}
    return build_model("transformer_lm_big", task, tokens_per_sample=64, **sizes)


MODELS = {
    "encoder": (build_model, ToyTask),
    "decoder": (build_model, ToyTask),
    "language model": (language_model, language_task),
    "pre-norm": (partial(build_model, encoder_normalize_before=True), ToyTask),
}


def built(name):
    """The states of a tiny model, and pairs as it reads them."""
    build, make_task = MODELS[name]
    task = make_task()
    model = build_model(task=task) if build is build_model else build(task=task)
    part = "encoder" if name in ("encoder", "pre-norm") else "decoder"
    states = States(TeacherForcing(model, task, attention=part))
    reader = PairReader(task, scheme="subword_nmt")
    return states, list(text_pairs(LINES, reader))


@pytest.mark.parametrize("name", MODELS)
def test_a_batch_is_its_sentences(name):
    states, pairs = built(name)
    together = states.run(pairs)
    assert len(together) == 3
    for place, pair in enumerate(pairs):
        for of_batch, alone in zip(together, states.run([pair]), strict=True):
            length = len(states.words(pair))
            assert alone.shape == (1, length, 16)
            assert_close(of_batch[place, :length], alone[0])


def test_the_encoder_has_the_states_that_fairseq_shows():
    states, pairs = built("encoder")
    tokens = pairs[0].source.tokens[None]
    encoder = states.forcing.model.encoder
    with torch.no_grad():
        own = encoder(tokens, torch.tensor([tokens.shape[1]]), return_all_hiddens=True)
    assert len(own["encoder_states"]) == 3
    for ours, theirs in zip(states.run(pairs[:1]), own["encoder_states"], strict=True):
        assert_close(ours, theirs.transpose(0, 1))


@pytest.mark.parametrize("bos", [False, True])
def test_a_language_model_reads_what_fairseq_lets_it_read(bos):
    task = language_task(add_bos_token=bos)
    reader = PairReader(task, scheme="subword_nmt")
    (pair,) = text_pairs([("w1@@ w2 w3", None)], reader)
    dictionary = task.source_dictionary
    ids = dictionary.encode_line("w1@@ w2 w3", add_if_not_exist=False).long()
    own = task.build_dataset_for_inference([ids], [len(ids)])[0]["net_input.src_tokens"]
    assert pair.source.tokens.tolist() == own.tolist()
    assert pair.source.words == [-1, 0, 0, 1]
    states = States(TeacherForcing(language_model(task), task, attention="decoder"))
    decoder = states.forcing.model.decoder
    with torch.no_grad():
        features, extra = decoder.extract_features(own[None], None)
    for ours, theirs in zip(states.run([pair]), extra["inner_states"], strict=True):
        assert_close(ours, theirs.transpose(0, 1))
    assert_close(decoder.layer_norm(states.run([pair])[-1]), features)


@pytest.mark.parametrize("name", ["encoder", "pre-norm"])
def test_a_hidden_token_is_no_key_of_its_layer(name):
    """Layer by layer by hand: its mask, and its input as usual."""
    states, pairs = built(name)
    hidden = [2, 0, 1]
    usual = states.run(pairs)
    without = states.run_without(pairs, hidden)
    assert len(without) == 2
    for place, pair in enumerate(pairs):
        length = len(pair.source.tokens)
        for number, layer in enumerate(states.layers):
            mask = torch.zeros(1, length, dtype=torch.bool)
            mask[0, hidden[place]] = True
            read = usual[number][place, :length].unsqueeze(1)  # (T, 1, C)
            with torch.no_grad():
                expected = layer(read, encoder_padding_mask=mask)
            assert_close(without[number][place, :length], expected[:, 0])
            assert not torch.allclose(usual[number + 1][place, :length], expected[:, 0])


@pytest.mark.parametrize("name", ["decoder", "language model"])
def test_a_hidden_token_changes_only_what_comes_after(name):
    states, pairs = built(name)
    usual = states.run(pairs[:1])
    for number, without in enumerate(states.run_without(pairs[:1], [2])):
        assert_close(without[0, :2], usual[number + 1][0, :2])
        for later in (3, 4):
            change = (without[0, later] - usual[number + 1][0, later]).abs().max()
            assert change > 1e-4
