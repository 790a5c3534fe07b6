"""An alignment head: against loops, against fairseq's own modules, and its file."""

import json
import math
from functools import partial

import pytest
import torch
from safetensors.torch import save_file

from fairseq_normalign.attention.trained_head import (
    AlignmentHead,
    TrainedHead,
    fingerprint,
    head_of,
    head_states,
    link_loss,
    log_shares,
    with_neighbours,
    write_aligner,
)
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import text_pairs
from fairseq_normalign.host.trust import read_safetensors
from tests.conftest import build_model, ready_model

assert_close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)

B, T, S, Q, K, D = 2, 3, 4, 5, 6, 7


def example():
    generator = torch.Generator().manual_seed(1)
    head = AlignmentHead.random(Q, K, width=D, generator=generator)
    head = head._replace(query_bias=torch.rand(D, generator=generator))
    queries = torch.randn(B, T, Q, generator=generator)
    keys = torch.randn(B, S, K, generator=generator)
    padding = torch.tensor([[False] * S, [False, False, True, True]])
    return head, queries, keys, padding


def test_shares_are_those_of_one_query_and_one_key_at_a_time():
    head, queries, keys, padding = example()
    shares = log_shares(head, queries, keys, padding).exp()
    for b in range(B):
        for t in range(T):
            scores = {}
            for s in range(S):
                if not padding[b, s]:
                    query = head.query @ queries[b, t] + head.query_bias
                    scores[s] = math.exp(float(query @ (head.key @ keys[b, s])) / math.sqrt(D))
            for s in range(S):
                expected = scores.get(s, 0.0) / sum(scores.values())
                assert math.isclose(float(shares[b, t, s]), expected, rel_tol=1e-4, abs_tol=1e-7)


def test_loss_is_that_of_the_share_of_all_links_of_a_row_together():
    head, queries, keys, padding = example()
    shares = log_shares(head, queries, keys, padding)
    links = torch.zeros(B, T, S, dtype=torch.bool)
    links[0, 0, [1, 3]] = links[0, 2, 0] = links[1, 1, 1] = True
    weights = torch.tensor([[1.0, 0.0, 0.3], [0.0, 1.0, 0.0]])
    total = 0.0
    for b in range(B):
        for t in range(T):
            share = sum(math.exp(shares[b, t, s]) for s in range(S) if links[b, t, s])
            if weights[b, t]:
                total -= float(weights[b, t]) * math.log(share)
    expected = total / 2.3
    assert math.isclose(float(link_loss(shares, links, weights)), expected, rel_tol=1e-5)


def test_rows_that_count_nothing_have_no_loss_and_no_gradient():
    head, queries, keys, padding = example()
    trained = AlignmentHead(*[part.requires_grad_() for part in head])
    shares = log_shares(trained, queries, keys, padding)
    loss = link_loss(shares, torch.zeros(B, T, S, dtype=torch.bool), torch.zeros(B, T))
    loss.backward()
    assert loss.item() == 0
    assert all(float(part.grad.abs().sum()) == 0 for part in trained)


def test_neighbours_are_the_states_before_and_behind():
    states = torch.randn(B, T, Q)
    rows = with_neighbours(states)
    zeros = torch.zeros(Q)
    for b in range(B):
        for t in range(T):
            before = states[b, t - 1] if t > 0 else zeros
            behind = states[b, t + 1] if t < T - 1 else zeros
            assert torch.equal(rows[b, t], torch.cat([states[b, t], before, behind]))


# What it reads.

TEXTS = [("w1 w2 w3", "w4 w5"), ("w5", "w7 w8 w9")]


def ready(**options):
    forcing, reader = ready_model(**options)
    return forcing, list(text_pairs(TEXTS, reader))


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


def test_fingerprint_knows_the_parameters_in_single_and_half_precision():
    model = build_model()
    print_of_model = fingerprint(model)
    assert print_of_model == fingerprint(build_model())
    assert print_of_model == fingerprint(build_model().half())
    with torch.no_grad():
        model.decoder.layers[1].fc1.bias[0] += 0.1
    assert print_of_model != fingerprint(model)


# Its file: what was written is read, and anything else is refused.


def head(seed: int = 1) -> AlignmentHead:
    return AlignmentHead.random(6, 4, width=3, generator=torch.Generator().manual_seed(seed))


def test_each_model_finds_its_own_head(tmp_path):
    forward, backward = build_model(), build_model(decoder_layers=1)
    trained = {
        "forward": TrainedHead(head(1), fingerprint(forward), "de-en"),
        "backward": TrainedHead(head(2), fingerprint(backward), "en-de"),
    }
    path = tmp_path / "aligner.safetensors"
    write_aligner(path, trained, {"seed": 7})
    assert json.loads(read_safetensors(path)[1]["normalign"])["training.seed"] == "7"
    for model, seed in ((forward, 1), (backward, 2), (forward, 1)):
        for part, expected in zip(head_of(str(path), model), head(seed), strict=True):
            assert torch.equal(part, expected)


def test_another_model_is_refused(tmp_path):
    path = tmp_path / "aligner.safetensors"
    write_aligner(path, {"forward": TrainedHead(head(), "0123456789abcdef", "de-en")}, {})
    with pytest.raises(InputError, match=r"of other models \(de-en 01234567\), not of this one"):
        head_of(str(path), build_model())


GOOD = {
    "format": "normalign-aligner-1",
    "heads": "forward",
    "forward.model": "0",
    "forward.languages": "de-en",
}


WEIGHTS = {f"forward.{name}": part for name, part in head()._asdict().items()}


@pytest.mark.parametrize(
    ("metadata", "tensors"),
    [
        ({}, WEIGHTS),
        ([], WEIGHTS),
        (GOOD, {"x": torch.zeros(1)}),
        ({**GOOD, "heads": 1}, WEIGHTS),
        ({"format": GOOD["format"], "heads": "forward"}, WEIGHTS),
        (GOOD, {**WEIGHTS, "forward.key": torch.full((3, 4), torch.nan)}),
    ],
)
def test_other_files_are_refused(metadata, tensors, tmp_path):
    path = tmp_path / "file"
    save_file(tensors, path, {"normalign": json.dumps(metadata)})
    message = "not a file of alignment heads, or damaged; use a file that normalign train-al"
    with pytest.raises(InputError, match=message):
        head_of(str(path), build_model())
