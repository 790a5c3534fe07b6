"""What an alignment head reads, against fairseq's own modules run by hand."""

from functools import partial

import pytest
import torch

from fairseq_normalign.attention.trained_head import fingerprint, head_states
from fairseq_normalign.host.pairs import PairReader, text_pairs
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from tests.conftest import ToyTask, build_model

TEXTS = [("w1 w2 w3", "w4 w5"), ("w5", "w7 w8 w9")]
assert_close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)


def ready(**options):
    task = ToyTask()
    forcing = TeacherForcing(build_model(task=task, **options), task)
    return forcing, list(text_pairs(TEXTS, PairReader(task)))


@pytest.mark.parametrize("pre_norm", [False, True])
def test_states_are_inputs_of_source_target_attention(pre_norm):
    norms = {"encoder_normalize_before": pre_norm, "decoder_normalize_before": pre_norm}
    forcing, pairs = ready(**norms)
    pair = pairs[0]
    queries, keys, _ = head_states(forcing, [pair])
    assert queries.shape == (1, 3, 3 * 16)  # embeddings and two layers
    assert keys.shape == (1, 4, 2 * 16)  # embeddings and output
    source, read, _ = forcing.tensors([pair])
    with torch.no_grad():
        encoder_out = forcing.model.encoder(source, src_lengths=torch.tensor([4]))
        embedded, _ = forcing.model.encoder.forward_embedding(source)
        assert_close(keys[0], torch.cat([embedded[0], encoder_out["encoder_out"][0][:, 0]], -1))
        decoder = forcing.model.decoder
        states = decoder.embed_scale * decoder.embed_tokens(read) + decoder.embed_positions(read)
        assert_close(queries[0, :, :16], states[0])
        layer = decoder.layers[0]
        x = states.transpose(0, 1)
        residual, x = x, layer.self_attn_layer_norm(x) if pre_norm else x
        mask = torch.full((3, 3), -torch.inf).triu(1)
        x = residual + layer.self_attn(x, x, x, attn_mask=mask)[0]
        x = layer.encoder_attn_layer_norm(x) if pre_norm else layer.self_attn_layer_norm(x)
        assert_close(queries[0, :, 16:32], x[:, 0])


def test_padding_is_marked_and_changes_nothing():
    forcing, pairs = ready()
    queries, keys, padding = head_states(forcing, pairs)
    assert padding.tolist() == [[False] * 4, [False, False, True, True]]
    assert queries[0, 3].abs().sum() == 0
    for place, pair in enumerate(pairs):
        alone = head_states(forcing, [pair])
        targets, sources = alone.queries.shape[1], alone.keys.shape[1]
        assert_close(queries[place, :targets], alone.queries[0])
        assert_close(keys[place, :sources], alone.keys[0])


def test_fingerprint_knows_the_parameters_in_single_and_half_precision():
    model = build_model()
    print_of_model = fingerprint(model)
    assert print_of_model == fingerprint(build_model())
    assert print_of_model == fingerprint(build_model().half())
    with torch.no_grad():
        model.decoder.layers[1].fc1.bias[0] += 0.1
    assert print_of_model != fingerprint(model)
