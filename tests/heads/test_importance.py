"""Losses of pairs, and what is refused; scores by them are tested with the other scores."""

import pytest
import torch
import torch.nn.functional as F

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.loss_scores import gradient_importance, losses
from fairseq_normalign.host.pairs import PairReader, text_pairs
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from tests.conftest import ToyTask, build_model

LINES = [("w1 w2", "w3 w4 w5"), ("w6", "w7"), ("w8 w9", "w2")]


@pytest.fixture
def forcing():
    task = ToyTask()
    return TeacherForcing(build_model(task=task), task)


@pytest.fixture
def pairs():
    return list(text_pairs(LINES, PairReader(ToyTask())))


def test_the_loss_of_a_pair_is_its_own(forcing, pairs):
    together = losses(forcing, pairs)
    for pair, loss in zip(pairs, together, strict=True):
        start = torch.tensor([forcing.start])
        read = torch.cat([start, pair.target.tokens[:-1]])[None]
        logits = forcing.model(pair.source.tokens[None], None, read)[0][0]
        expected = F.cross_entropy(logits, pair.target.tokens, reduction="sum")
        torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)


def test_the_loss_of_an_adaptive_softmax(pairs):
    """Its own function for all tokens gives the same, but no gradients."""
    task = ToyTask()
    model = build_model(task=task, adaptive_softmax_cutoff="8,20,30")
    forcing = TeacherForcing(model, task)
    sources, read, target = forcing.tensors(pairs)
    output = model(sources, sources.ne(forcing.pad).sum(1), read)
    log_probs = model.decoder.adaptive_softmax.get_log_prob(output[0], None)
    of_target = log_probs.gather(2, target[..., None])[..., 0].masked_fill(target.eq(1), 0)
    torch.testing.assert_close(losses(forcing, pairs), -of_target.sum(1), rtol=1e-4, atol=1e-5)
    scores = gradient_importance(forcing, pairs)
    assert all(score > 0 for score in scores.values())


def test_importance_where_decoders_attend_to_both_sides(pairs):
    task = ToyTask()
    forcing = TeacherForcing(build_model(task=task, cross_self_attention=True), task)
    assert all(score > 0 for score in gradient_importance(forcing, pairs).values())


def test_padding_has_no_part_however_unlikely_it_is(forcing, pairs):
    expected = losses(forcing, pairs)
    forcing.model.decoder.output_projection.bias = torch.nn.Parameter(torch.zeros(34))
    forcing.model.decoder.output_projection.bias.data[forcing.pad] = -torch.inf
    assert losses(forcing, pairs).isfinite().all()
    assert (losses(forcing, pairs) <= expected).all()


def test_a_model_that_has_translated_gives_the_same(forcing, pairs):
    """Three pairs, which must not be taken for the three beams of one."""
    expected = losses(forcing, pairs)
    forcing.model.decoder.set_beam_size(3)  # what beam search leaves in BART
    torch.testing.assert_close(losses(forcing, pairs), expected, rtol=1e-4, atol=1e-5)
    assert forcing.model.decoder.layers[0].encoder_attn.beam_size == 3


@pytest.mark.parametrize("function", [losses, gradient_importance])
def test_a_model_that_overflows_is_refused_at_its_pair(forcing, pairs, function):
    w9 = pairs[2].source.tokens[1]
    forcing.model.encoder.embed_tokens.weight.data[w9] = torch.nan
    with pytest.raises(InputError, match=r"^line 3: the model gives numbers that are not finite"):
        function(forcing, pairs)


def test_gradients_that_overflow_are_refused(forcing, pairs, monkeypatch):
    grad = torch.autograd.grad
    monkeypatch.setattr(torch.autograd, "grad", lambda *args: [g * torch.inf for g in grad(*args)])
    with pytest.raises(InputError, match="the model gives numbers that are not finite"):
        gradient_importance(forcing, pairs)
