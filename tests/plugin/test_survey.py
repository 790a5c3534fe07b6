"""Scores of heads against pairs that run alone, explicit multipliers, and heads switched off by hand."""

import pytest
import torch

from fairseq_normalign.alignment.aer import count
from fairseq_normalign.alignment.extract import argmax
from fairseq_normalign.alignment.links import Gold, InMemory
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.names import Head
from fairseq_normalign.plugin.ablation import ablated, ablation, token_loss
from fairseq_normalign.plugin.corpus import Encoder, text_pairs
from fairseq_normalign.plugin.forced import Evidence, Forced
from fairseq_normalign.plugin.gating import gate_heads
from fairseq_normalign.plugin.importance import gradient_importance, losses
from fairseq_normalign.plugin.pruned import remove_heads
from fairseq_normalign.plugin.recorder import KINDS, attentions, record
from fairseq_normalign.plugin.relevances import relevances
from fairseq_normalign.plugin.survey import explain, gate_values, head_aers, head_scores
from fairseq_normalign.plugin.watching import Means, running_heads, watch
from tests.conftest import ToyTask, build_model

LINES = [("w1@@ w2 w3 w7", "w4 w5@@ w6@@ w7"), ("w3", "w9 w8"), ("w2 w2 w5", "w1")]


@pytest.fixture
def task():
    return ToyTask()


@pytest.fixture
def pairs(task):
    return list(text_pairs(LINES, Encoder(task, scheme="subword_nmt")))


def random_model(task, **options):
    """A small model none of whose parameters is zero or one."""
    model = build_model(task=task, **options)
    torch.manual_seed(2)
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model


@pytest.fixture
def forced(task):
    return Forced(random_model(task), task)


def alone(forced, pair):
    """What the attentions did on one pair, run alone; and what encoder and decoder read, marks being None."""
    model, read = forced.model, torch.cat([torch.tensor([2]), pair.target.tokens[:-1]])
    with torch.no_grad(), record(model, KINDS) as recording:
        model(pair.source.tokens[None], torch.tensor([len(pair.source.tokens)]), read[None])
    source, target = ([None if token == 2 else token for token in line.tolist()] for line in (pair.source.tokens, read))
    return recording, {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}


def slow_means(forced, pairs):
    """Confidence, norm confidence and norm of each head, by loops."""
    found = {}
    for pair in pairs:
        recording, tokens = alone(forced, pair)
        for (kind, layer), recorded in recording.items():
            queries, keys = tokens[kind]
            for head in range(4):
                name = Head(kind, layer, head)
                weights, norms = (part[0, head].tolist() for part in (recorded.weights, recorded.norms.weighted))
                for t, query in enumerate(queries):
                    visible = [s for s in range(len(keys)) if kind != "decoder" or s <= t]
                    found.setdefault(("norm", name), []).append(sum(norms[t][s] for s in visible))
                    words = [s for s in visible if keys[s] is not None]
                    if query is None or not words:
                        continue
                    found.setdefault(("confidence", name), []).append(max(weights[t][s] for s in words))
                    share = max(norms[t][s] for s in words) / sum(norms[t])
                    found.setdefault(("norm-confidence", name), []).append(share)
    return {key: sum(values) / len(values) for key, values in found.items()}


@pytest.mark.parametrize("max_tokens", [1, 4000])
def test_means_equal_the_slow_twin(forced, pairs, max_tokens):
    means = Means()
    watch(forced, pairs, [means], max_tokens=max_tokens)
    found = {(name, head): value for name, scores in means.scores().items() for head, value in scores.items()}
    assert found == pytest.approx(slow_means(forced, pairs), rel=1e-5)
    assert len(found) == 3 * 24


def scaled_loss(forced, pair, head, scale):
    """The loss of a pair that runs alone, with a head's output multiplied."""
    attention = attentions(forced.model)[head[:2]]

    def multiply(module, args):
        by_head = list(args[0].unflatten(-1, (attention.num_heads, -1)).unbind(-2))
        by_head[head.head] = by_head[head.head] * scale
        return (torch.cat(by_head, -1),)

    handle = attention.out_proj.register_forward_pre_hook(multiply)
    with record(forced.model, KINDS, values=False):  # the path on which the hook is called
        loss = losses(forced, [pair])[0]
    handle.remove()
    return loss


def slow_importance(forced, pairs, head):
    slopes = []
    for pair in pairs:
        scale = torch.ones((), requires_grad=True)
        slopes += torch.autograd.grad(scaled_loss(forced, pair, head, scale), scale)
    return sum(map(abs, slopes)).item() / len(pairs)


@pytest.mark.parametrize("max_tokens", [1, 4000])
def test_importance_is_the_derivative_by_a_multiplier(forced, pairs, max_tokens):
    found = gradient_importance(forced, pairs, max_tokens=max_tokens)
    assert set(found) == {Head(kind, layer, head) for kind in KINDS for layer in (0, 1) for head in range(4)}
    for head, importance in found.items():
        assert importance == pytest.approx(slow_importance(forced, pairs, head), rel=1e-3, abs=1e-5), head
    assert all(parameter.grad is None for parameter in forced.model.parameters())


def test_importance_of_a_frozen_model(forced, pairs):
    expected = gradient_importance(forced, pairs)
    forced.model.requires_grad_(False)
    assert gradient_importance(forced, pairs) == pytest.approx(expected)


def test_losses_are_those_of_pairs_alone(forced, pairs):
    with torch.no_grad():
        torch.testing.assert_close(losses(forced, pairs), torch.cat([losses(forced, [pair]) for pair in pairs]))
    tokens = [len(pair.target.tokens) for pair in pairs]
    assert token_loss(forced, pairs, max_tokens=1) == pytest.approx(losses(forced, pairs).sum().item() / sum(tokens))


def test_ablation_is_the_loss_without_the_head(forced, pairs):
    tokens = sum(len(pair.target.tokens) for pair in pairs)
    whole = sum(scaled_loss(forced, pair, Head("encoder", 0, 0), 1).item() for pair in pairs)
    for head, change in ablation(forced, pairs).items():
        off = sum(scaled_loss(forced, pair, head, 0).item() for pair in pairs)
        assert change == pytest.approx((off - whole) / tokens, abs=1e-5), head


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


def test_gates(task):
    forced = Forced(random_model(task), task)
    assert gate_values(forced) == {}
    gate_heads(forced.model, ["cross"])
    found = gate_values(forced)
    assert set(found) == {Head("cross", layer, head) for layer in (0, 1) for head in range(4)}
    expected = forced.model.decoder.layers[1].encoder_attn.out_proj.gate_values()[3]
    assert found[Head("cross", 1, 3)] == pytest.approx(expected.item())


@pytest.mark.parametrize("by", ["norm", "confidence", "relevance", "importance"])
def test_scores_of_models_with_few_heads(by, task, pairs):
    model = random_model(task, arch="transformer_normalign")
    remove_heads(model, "encoder.1.2 encoder.2.1 encoder.2.4 cross.2.3")
    forced = Forced(model, task)
    found = head_scores(forced, pairs, by)
    assert list(found) == [Head("encoder", 0, 0), Head("encoder", 1, 0), Head("encoder", 1, 1), Head("cross", 1, 0)]
    assert all(0 < value < 1e6 for value in found.values())
    assert running_heads(forced) == {("encoder", 0): 1, ("encoder", 1): 2, ("cross", 1): 1}


def test_no_head_is_left(task, pairs):
    model = random_model(task, arch="transformer_normalign")
    remove_heads(model, "none")
    forced = Forced(model, task)
    assert head_scores(forced, pairs, "norm") == head_scores(forced, pairs, "importance") == {}
    assert head_aers(forced, pairs, InMemory("gold", [])) == ablation(forced, pairs) == {}


def test_all_scores_have_every_head(forced, pairs):
    heads = [Head(kind, layer, head) for kind in KINDS for layer in (0, 1) for head in range(4)]
    for by in ("norm", "confidence", "relevance", "importance"):
        assert list(head_scores(forced, pairs, by)) == heads


@pytest.mark.parametrize("pooled", [False, True])
def test_relevance_is_the_mean_over_predictions(forced, pairs, pooled):
    explained = explain(forced, pairs, rules="epsilon", pooled=pooled, max_tokens=40)
    found = explained.heads
    shares = [
        item.heads["cross", 1] for pair in pairs for item in relevances(forced, [pair], rules="epsilon", pooled=pooled)
    ]
    predictions = [row for part in shares for row in part]
    assert len(predictions) == (3 if pooled else sum(len(pair.target.tokens) for pair in pairs))
    expected = sum(predictions) / len(predictions)
    assert [found[Head("cross", 1, head)] for head in range(4)] == pytest.approx(expected.tolist(), abs=1e-5)
    assert sorted(len(one.source) for one in explained.contributions) == sorted(map(len, shares))
    alone = [item for pair in pairs for item in relevances(forced, [pair], rules="epsilon", pooled=pooled)]
    farthest = max(item.deviation["encoder.1"] for item in alone)
    assert explained.deviation["encoder.1"] == pytest.approx(farthest, rel=1e-2)


def test_unknown_scores_and_empty_corpora(forced, task):
    with pytest.raises(
        InputError, match="unknown score of heads 'size'; expected one of: norm, confidence, relevance, imp"
    ):
        head_scores(forced, [], "size")
    with pytest.raises(InputError, match="heads cannot be scored on a corpus without words"):
        head_scores(forced, [], "norm")
    with pytest.raises(InputError, match="heads cannot be scored on a corpus without words on both sides"):
        head_scores(forced, list(text_pairs([("w1", "")], Encoder(task))), "confidence")
    with pytest.raises(InputError, match="the loss needs target sentences"):
        token_loss(forced, list(text_pairs([("w1", None)], Encoder(task))))


@pytest.mark.parametrize("steps", [("input",), ("output",), ("input", "output")])
def test_the_aer_of_each_head(forced, pairs, steps):
    gold = [Gold({(0, 0)}, {(0, 0), (1, 1)}), Gold({(0, 1)}, {(0, 1)}), Gold({(1, 0)}, {(1, 0)})]
    found = head_aers(forced, pairs, InMemory("gold", gold), steps=steps)
    for head, (aer, step) in found.items():
        aers = {}
        for name in steps:
            evidence = Evidence("norms", head.layer, name, head.head)
            softs = [next(forced([pair], [evidence]))[0] for pair in pairs]
            links = [set(argmax(soft.words, null=soft.null)) for soft in softs]
            counts = [count(found_links, one) for found_links, one in zip(links, gold)]
            aers[name] = (counts[0] + counts[1] + counts[2]).aer
        assert aer == pytest.approx(min(aers.values()))
        assert aers[step] == pytest.approx(aer)
    assert len(found) == 8


def test_gold_of_another_length(forced, pairs):
    with pytest.raises(InputError, match="line counts differ: gold has 1, the corpus has 3 lines"):
        head_aers(forced, pairs, InMemory("gold", [Gold(set(), set())]))


def test_the_encoder_alone(task):
    forced = Forced(random_model(task), task, attention="encoder")
    sources = list(text_pairs([("w1 w2", None), ("w3", None)], Encoder(task)))
    assert {head.kind for head in head_scores(forced, sources, "norm")} == {"encoder"}
