"""Scores of heads against pairs that run alone, multipliers, and heads switched off by hand."""

import re
from itertools import product, starmap

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fairseq_normalign.alignment.aer import Counts, count
from fairseq_normalign.alignment.aligner import NormAligner
from fairseq_normalign.attention.lrp_rules import Contributions
from fairseq_normalign.attention.pair_relevance import relevances
from fairseq_normalign.attention.recorder import record
from fairseq_normalign.attention.states import hooked
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.attention_pass import Tally, cells
from fairseq_normalign.heads.attention_scores import (
    confidences,
    entropies,
    norm_sums,
    row_shares,
)
from fairseq_normalign.heads.loss_scores import ablated, losses_without_each
from fairseq_normalign.heads.profiling import head_ranks, profile
from fairseq_normalign.heads.relevance_scores import add_contributions, by_position
from fairseq_normalign.host.attention_modules import attentions, explicit_path, head_names
from fairseq_normalign.host.options import ReadyModel
from fairseq_normalign.host.pairs import PairReader, text_pairs
from fairseq_normalign.host.teacher_forcing import TeacherForcing, losses
from fairseq_normalign.names import KINDS, Head
from fairseq_normalign.plugin.gating import gate_heads
from fairseq_normalign.plugin.pruned import remove_heads
from fairseq_normalign.text.links import Gold
from tests.conftest import PRE_LN, ToyTask, build_model, randomised, run_alone

MEANS = ["confidence", "entropy", "norm-confidence", "norm"]
LINES = [("w1@@ w2 w3 w7", "w4 w5@@ w6@@ w7"), ("w3", "w9 w8"), ("w2 w2 w5", "w1")]


@pytest.fixture
def pairs(task):
    return list(text_pairs(LINES, PairReader(task, scheme="subword_nmt")))


def random_model(task, **options):
    return randomised(build_model(task=task, **options), seed=2)


@pytest.fixture
def forcing(task):
    return TeacherForcing(random_model(task), task)


def ready(forcing) -> ReadyModel:
    return ReadyModel(forcing, PairReader(ToyTask(), scheme="subword_nmt"))


def test_value_zeroing_equals_explicit_zeros(forcing, pairs):
    """Against a second pass of each pair for each head, its part of W_O being zero."""
    model = forcing.model

    norms = {}
    for kind, (side, attribute, *_) in KINDS.items():
        for layer, module in enumerate(getattr(model, side).layers):
            norms[getattr(module, f"{attribute}_layer_norm")] = kind, layer

    def outputs(pair):
        """What each attention block returns for one pair, behind its layer norm."""
        found = {}

        def keep(module, args, kwargs, output):
            found[norms[module]] = output[:, 0]

        with torch.no_grad(), hooked(norms, after=keep):
            run_alone(model, pair)
        return found

    expected = {}
    for name, attention in attentions(model).items():
        weight = attention.out_proj.weight.data
        for head, part in enumerate(weight.split(attention.head_dim, dim=1)):
            changes = []
            for pair in pairs:
                before = outputs(pair)[name]
                kept = part.clone()
                part.zero_()
                changes.append(1 - F.cosine_similarity(outputs(pair)[name], before, dim=-1))
                part.copy_(kept)
            expected[Head(*name, head)] = torch.cat(changes).mean().item()
    scores = scored(forcing, pairs, "value-zeroing")
    assert scores == pytest.approx(expected, rel=1e-3, abs=1e-6)
    assert len(set(scores.values())) == len(scores)


def scored(forcing, pairs, name, **options):
    return profile(ready(forcing), pairs, [name], **options).scores[name]


def alone(forcing, pair):
    """What the attentions did on one pair, run alone.

    Also the words that encoder and decoder read, -1 for marks.
    """
    with torch.no_grad(), record(forcing.model, KINDS) as recording:
        run_alone(forcing.model, pair)
    source = without_marks(pair.source.tokens)
    target = [-1, *without_marks(pair.target.tokens[:-1])]
    tokens = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
    return recording, tokens


def without_marks(tokens):
    return [-1 if token == 2 else token for token in tokens.tolist()]


@pytest.mark.parametrize("max_tokens", [1, 4000])
def test_means_are_those_of_pairs_which_run_alone(forcing, pairs, max_tokens):
    """Their formulas have slow twins in test_confidence."""
    scores = profile(ready(forcing), pairs, MEANS, max_tokens=max_tokens).scores
    sums = {}
    for pair in pairs:
        recording, tokens = alone(forcing, pair)
        for (kind, layer), recorded in recording.items():
            words = [torch.tensor([of_side]) for of_side in tokens[kind]]
            seen = cells(*words, causal=kind == "decoder")
            norms = recorded.norms.weighted
            rows = {
                "confidence": confidences(recorded.weights, seen),
                "entropy": entropies(recorded.weights, seen),
                "norm-confidence": confidences(row_shares(norms), seen),
                "norm": norm_sums(norms, seen),
            }
            for name, of_heads in rows.items():
                for head, row in enumerate(of_heads):
                    key = name, Head(kind, layer, head)
                    sums[key] = sums.get(key, 0) + row
    assert len(sums) == 4 * 24
    for (name, head), (total, cases) in sums.items():
        assert scores[name][head] == pytest.approx(float(total / cases), rel=1e-4), (name, head)


def scaled_loss(forcing, pair, head, scale):
    """The loss of a pair that runs alone, with a head's output multiplied."""
    attention = attentions(forcing.model)[head[:2]]

    def multiply(module, args):
        by_head = list(args[0].unflatten(-1, (attention.num_heads, -1)).unbind(-2))
        by_head[head.head] = by_head[head.head] * scale
        return (torch.cat(by_head, -1),)

    handle = attention.out_proj.register_forward_pre_hook(multiply)
    with record(forcing.model, KINDS, values=False):  # the path on which the hook is called
        loss = losses(forcing, [pair])[0]
    handle.remove()
    return loss


def slow_importance(forcing, pairs, head):
    slopes = []
    for pair in pairs:
        scale = torch.ones((), requires_grad=True)
        slopes += torch.autograd.grad(scaled_loss(forcing, pair, head, scale), scale)
    return sum(map(abs, slopes)).item() / len(pairs)


@pytest.mark.parametrize("max_tokens", [1, 4000])
def test_importance_is_the_derivative_by_a_multiplier(forcing, pairs, max_tokens):
    by_head = scored(forcing, pairs, "importance", max_tokens=max_tokens)
    assert set(by_head) == set(starmap(Head, product(KINDS, (0, 1), range(4))))
    for head, importance in by_head.items():
        assert importance == pytest.approx(
            slow_importance(forcing, pairs, head), rel=1e-3, abs=1e-5
        ), head
    assert all(parameter.grad is None for parameter in forcing.model.parameters())


def test_importance_of_a_frozen_model(forcing, pairs):
    expected = scored(forcing, pairs, "importance")
    forcing.model.requires_grad_(False)
    assert scored(forcing, pairs, "importance") == pytest.approx(expected, rel=1e-4)


def test_the_loss_is_the_cross_entropy(forcing, pairs):
    together = losses(forcing, pairs)
    total = together.sum().item()
    assert losses_without_each(forcing, pairs, [])[0] == pytest.approx(total, rel=1e-6)
    for pair, loss in zip(pairs, together, strict=True):
        logits = run_alone(forcing.model, pair)[0]
        expected = F.cross_entropy(logits, pair.target.tokens, reduction="sum")
        torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)


def test_the_loss_of_an_adaptive_softmax(task, pairs):
    """Its own function for all tokens gives the same, but no gradients."""
    model = build_model(task=task, adaptive_softmax_cutoff="8,20,30")
    forcing = TeacherForcing(model, task)
    sources, read, target = forcing.tensors(pairs)
    output = model(sources, sources.ne(forcing.pad).sum(1), read)
    log_probs = model.decoder.adaptive_softmax.get_log_prob(output[0], None)
    of_target = log_probs.gather(2, target[..., None])[..., 0].masked_fill(target.eq(1), 0)
    torch.testing.assert_close(losses(forcing, pairs), -of_target.sum(1), rtol=1e-4, atol=1e-5)
    scores = scored(forcing, pairs, "importance")
    assert all(score > 0 for score in scores.values())


def test_importance_where_decoders_attend_to_both_sides(task, pairs):
    forcing = TeacherForcing(build_model(task=task, cross_self_attention=True), task)
    assert all(score > 0 for score in scored(forcing, pairs, "importance").values())


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


def test_ablation_is_the_loss_without_the_head(forcing, pairs):
    tokens = sum(len(pair.target.tokens) for pair in pairs)
    whole = sum(scaled_loss(forcing, pair, Head("encoder", 0, 0), 1).item() for pair in pairs)
    for head, change in scored(forcing, pairs, "ablation").items():
        off = sum(scaled_loss(forcing, pair, head, 0).item() for pair in pairs)
        assert change == pytest.approx((off - whole) / tokens, rel=1e-4, abs=1e-4), head


@pytest.mark.parametrize(
    "options",
    [
        {},
        PRE_LN,
        {"arch": "transformer_normalign", "gate_heads": "all"},
        {"arch": "transformer_normalign", "alive_heads": "encoder.1.2 decoder.2.3 cross.2.1"},
        {"cross_self_attention": True, "no_cross_attention": True},
    ],
)
def test_layers_before_an_ablated_head_are_not_run_again(task, pairs, options):
    """The same bytes as whole passes."""
    forcing = TeacherForcing(random_model(task, **options), task, attention="decoder")
    model = forcing.model
    heads = head_names(model)
    with torch.no_grad(), explicit_path(attentions(model).values()):
        expected = [losses(forcing, pairs).double().sum().item()]
        for head in heads:
            with ablated(model, head):
                expected.append(losses(forcing, pairs).double().sum().item())
    ran: list = []
    inner = [layer.fc1 for layer in model.encoder.layers]
    with hooked(inner, before=lambda module, *_: ran.append(module)):
        assert losses_without_each(forcing, pairs, heads) == expected
    assert all("forward" not in vars(module) for module in model.modules())
    for layer, module in enumerate(inner):
        again = sum(head.kind == "encoder" and head.layer <= layer for head in heads)
        assert ran.count(module) == 1 + again


@pytest.mark.parametrize("gated", [False, True])
def test_an_ablated_model_comes_back_as_it_was(task, gated):
    model = random_model(task)
    if gated:
        gate_heads(model, KINDS)
        model.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    attention = model.decoder.layers[1].encoder_attn
    with pytest.raises(RuntimeError), ablated(model, Head("cross", 1, 2)):
        columns = attention.out_proj.weight.unflatten(1, (4, -1)).abs().sum((0, 2))
        assert [bool(column) for column in columns] == [True, True, False, True]
        raise RuntimeError
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_gates(task, pairs):
    forcing = TeacherForcing(random_model(task), task)
    assert "gate" not in profile(ready(forcing), pairs, ["gate"]).scores
    gate_heads(forcing.model, ["cross"])
    scores = profile(ready(forcing), pairs, ["gate"]).scores["gate"]
    assert set(scores) == set(starmap(Head, product(["cross"], (0, 1), range(4))))
    expected = forcing.model.decoder.layers[1].encoder_attn.out_proj.gate_values()[3]
    assert scores[Head("cross", 1, 3)] == pytest.approx(expected.item())
    alone = TeacherForcing(forcing.model, task, attention="encoder")
    assert "gate" not in profile(ready(alone), pairs, ["gate"]).scores


def test_no_head_is_left(task, pairs):
    model = random_model(task, arch="transformer_normalign")
    remove_heads(model, "none")
    forcing = TeacherForcing(model, task)
    with pytest.raises(InputError, match="the model has no attention heads left"):
        profile(ready(forcing), pairs)


@pytest.mark.parametrize("mode", ["exact", "pooled"])
def test_relevance_is_the_mean_over_predictions(forcing, pairs, mode):
    options = {"relevance": "epsilon", "relevance_mode": mode, "max_tokens": 40}
    explained = profile(ready(forcing), pairs, ["relevance"], **options)
    by_head = explained.scores["relevance"]
    alone = []
    for pair in pairs:
        alone += relevances(forcing, [pair], rules="epsilon", pooled=mode == "pooled")
    shares = [of_pair.heads["cross", 1] for of_pair in alone]
    predictions = np.concatenate(shares)
    expected_count = {"exact": sum(len(pair.target.tokens) for pair in pairs), "pooled": 3}
    assert len(predictions) == expected_count[mode]
    measured = [by_head[Head("cross", 1, head)] for head in range(4)]
    assert measured == pytest.approx(predictions.mean(0).tolist(), rel=1e-3, abs=1e-4)
    assert len(explained.tables()["relevance"].rows) == max(map(len, shares))
    farthest = max(max(of_pair.deviation.values()) for of_pair in alone)
    (shown,) = re.findall(r"adds up to 1 within (\S+)\.", explained.text())
    assert float(shown) == pytest.approx(farthest, rel=0.5)  # one digit is shown


@pytest.mark.parametrize("mode", ["exact", "pooled"])
def test_the_influence_of_the_rarest_token(forcing, pairs, mode):
    """w1@@ and w5 are the rarest of the first and the third pair; the second one has one token."""
    counts = {f"w{number}": 100 - number for number in range(30)}
    options = {"counts": counts, "rare_top": 0, "relevance_mode": mode}
    explained = profile(ready(forcing), pairs, ["relevance"], **options)
    ratios = []
    for pair, rarest in ((pairs[0], 0), (pairs[2], 2)):
        (of_pair,) = relevances(forcing, [pair], pooled=mode == "pooled")
        by_prediction = []
        for of_prediction in of_pair.source.tolist():
            sizes = [abs(size) for size in of_prediction[:-1]]  # without </s>
            by_prediction.append(sizes[rarest] / (sum(sizes) / len(sizes)))
        ratios.append(sum(by_prediction) / len(by_prediction))
    (row,) = explained.tables()["rarest"].rows
    assert row == [pytest.approx(sum(ratios) / 2, rel=1e-3), 2]


def test_without_counts_there_is_no_influence(forcing, pairs):
    explained = profile(ready(forcing), pairs, ["relevance"], relevance_mode="pooled")
    assert "rarest" not in explained.tables()


def test_unknown_scores_and_empty_corpora(forcing, task):
    with pytest.raises(InputError, match="unknown head score 'size'; expected one of: relevance, "):
        profile(ready(forcing), [], ["size"])
    for name in ("gate", "entropy"):
        with pytest.raises(InputError, match=f"cannot rank heads by {name}; choose one of: rel"):
            head_ranks(ready(forcing), [], name)
    with pytest.raises(InputError, match="heads cannot be measured on a corpus without words"):
        head_ranks(ready(forcing), [], "norm")
    pairs = list(text_pairs([("w1", "")], PairReader(task)))
    with pytest.raises(InputError, match="heads cannot be scored on a corpus without words on bot"):
        head_ranks(ready(forcing), pairs, "confidence")
    with pytest.raises(InputError, match="the loss needs target sentences"):
        scored(forcing, list(text_pairs([("w1", None)], PairReader(task))), "ablation")


@pytest.mark.parametrize("method", ["norms", "weights"])
def test_the_aer_of_each_head_is_that_of_its_aligner(method, forcing, pairs):
    gold = [Gold({(0, 0)}, {(0, 0), (1, 1)}), Gold({(0, 1)}, {(0, 1)}), Gold({(1, 0)}, {(1, 0)})]
    model = ready(forcing)
    measured = profile(model, iter(pairs), ["AER"], gold=gold, method=method)
    assert measured.signature["method"] == method
    steps = dict(measured.tables()["steps"].rows)
    assert len(measured.scores["AER"]) == 8
    best = min(measured.scores["AER"], key=measured.scores["AER"].__getitem__)
    assert measured.tables()["by AER"].rows[0] == [best.layer, best.head]
    assert f"by AER: {best} cross." in measured.text()
    for head, aer in measured.scores["AER"].items():
        aers = {}
        for step in ("input", "output"):
            place = {"layer": head.layer + 1, "head": head.head + 1, "step": step}
            links = NormAligner(forcing, model.reader, method=method, **place).links_many(pairs)
            aers[step] = sum(map(count, map(set, links), gold), Counts()).aer
        assert aer == min(aers.values()) == aers[steps[str(head)]]  # exactly: all are of counts


def test_the_encoder_alone(task):
    forcing = TeacherForcing(random_model(task), task, attention="encoder")
    sources = list(text_pairs([("w1 w2", None), ("w3", None)], PairReader(task)))
    assert {head.kind for head in head_ranks(ready(forcing), sources, "norm")} == {"encoder"}


def test_means_by_position_are_over_the_sentences_that_reach_it():
    tally = Tally({"heads": []})
    assert [len(part) for part in by_position(tally)] == [0, 0, 0]
    entropies = np.array([1.0, 2.0, 3.0])
    undefined = np.array([np.nan])
    add_contributions(tally, Contributions(np.array([0.5, 0.25, 1.0]), entropies, entropies))
    add_contributions(tally, Contributions(np.array([0.25]), undefined, undefined))
    means = by_position(tally)
    assert means.source.tolist() == [0.375, 0.25, 1.0]
    assert means.source_entropy.tolist() == [1.0, 2.0, 3.0]
