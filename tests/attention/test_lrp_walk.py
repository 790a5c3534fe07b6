"""The walk against gradients of a Transformer written down again, and against itself.

Against itself, one prediction at a time.
"""

import math
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fairseq_normalign.attention import lrp_walk as relprop
from fairseq_normalign.attention.lrp_rules import RULES
from fairseq_normalign.attention.lrp_walk import propagate
from fairseq_normalign.attention.pair_relevance import relevances
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import attentions, layers_of
from fairseq_normalign.host.pairs import PairReader, text_pairs
from fairseq_normalign.names import all_heads
from fairseq_normalign.plugin.pruned import remove_heads
from tests.conftest import PRE_LN, ToyTask, build_model, randomised, ready_model

PAD = 1
SRC = torch.tensor([[5, 6, 7, 8, 2], [9, 10, 2, PAD, PAD]])
PREV = torch.tensor([[2, 11, 12, 13], [2, 14, PAD, PAD]])


@pytest.fixture(params=[{}, PRE_LN], ids=["post-LN", "pre-LN"])
def model(request):
    return randomised(build_model(**request.param)).double()


# Models are in double precision, but fairseq's softmax is in single precision always, and padding
# changes the order of its sum.
CLOSE = {"rtol": 1e-4, "atol": 1e-6}
assert_close = partial(torch.testing.assert_close, **CLOSE)


def assert_same(computed, expected):
    for part, other in zip(computed, expected, strict=True):
        if isinstance(part, dict):
            assert set(part) == set(other)
            for name in part:
                assert_close(part[name], other[name], msg=lambda text, name=name: f"{name}: {text}")
        else:
            assert_close(part, other)


# A Transformer whose gradient times input is the relevance, for one sentence.


def halved(x):
    """x, with half the gradient."""
    return x / 2 + (x / 2).detach()


class Twin:
    def __init__(self, model, rules: str):
        self.model, self.rules, self.contexts = model, rules, {}

    def norm(self, x, module):
        sigma = (x.var(-1, unbiased=False, keepdim=True) + module.eps).sqrt().detach()
        return module.weight * (x - x.mean(-1, keepdim=True)) / sigma + module.bias

    def by_head(self, module, x, projection):
        projected = x @ projection.weight.T + projection.bias
        return projected.view(len(x), module.num_heads, -1).transpose(0, 1)

    def attend(self, name, module, x, memory, causal):
        q = self.by_head(module, x, module.q_proj)
        k = self.by_head(module, memory, module.k_proj)
        v = self.by_head(module, memory, module.v_proj)
        product = halved if self.rules == "attnlrp" else lambda x: x
        logits = product(q * module.scaling) @ product(k).transpose(1, 2)
        if causal:
            logits = logits + torch.full_like(logits, -math.inf).triu(1)
        weights = logits.softmax(-1)
        weights = weights.detach() if self.rules == "epsilon" else product(weights)
        context = (weights @ product(v)).transpose(0, 1).flatten(1)
        self.contexts[name] = context
        return context @ module.out_proj.weight.T + module.out_proj.bias

    def sublayer(self, x, norm, before, branch):
        return x + branch(self.norm(x, norm)) if before else self.norm(x + branch(x), norm)

    def stack(self, side, x, memory=None):
        stack = getattr(self.model, side)
        for index, layer in enumerate(stack.layers):
            before, name = layer.normalize_before, (side, index)
            attend = lambda y, a=layer.self_attn, n=name: self.attend(n, a, y, y, side == "decoder")  # noqa: E731
            x = self.sublayer(x, layer.self_attn_layer_norm, before, attend)
            if memory is not None:
                cross = lambda y, a=layer.encoder_attn, i=index: self.attend(  # noqa: E731
                    ("cross", i), a, y, memory, False
                )
                x = self.sublayer(x, layer.encoder_attn_layer_norm, before, cross)
            feed = lambda y, a=layer: a.fc2(F.relu(a.fc1(y)))  # noqa: E731
            x = self.sublayer(x, layer.final_layer_norm, before, feed)
        return x if stack.layer_norm is None else self.norm(x, stack.layer_norm)

    def relevance(self, src, prev, position):
        """Of the source, the prefix and the heads, for the highest logit of a position."""
        encoder_out = self.model.encoder(src, None, return_all_hiddens=True)
        states = self.model.decoder.extract_features(prev, encoder_out)[1]["inner_states"]
        source = encoder_out["encoder_states"][0][:, 0].detach().requires_grad_()
        prefix = states[0][:, 0].detach().requires_grad_()
        features = self.stack("decoder", prefix, self.stack("encoder", source))
        logit = self.model.decoder.output_projection(features)[position].max()
        inputs = [source, prefix, *self.contexts.values()]
        relevances = []
        gradients = torch.autograd.grad(logit, inputs, allow_unused=True)
        for x, gradient in zip(inputs, gradients, strict=True):
            relevances.append(x * (0 if gradient is None else gradient) / logit)
        of_source, of_prefix, *of_contexts = relevances
        shares = {}
        for name, of_context in zip(self.contexts, of_contexts, strict=True):
            by_head = of_context.view(len(of_context), 4, -1).abs().sum((0, 2))
            shares[name] = by_head / by_head.sum()
        return of_source.sum(-1), of_prefix.sum(-1), shares


@pytest.mark.parametrize("rules", ["epsilon", "attnlrp"])
def test_linear_rules_equal_gradient_times_input(model, rules):
    src, prev = SRC[:1], PREV[:1]
    relevance = propagate(model, src, prev, rules=f"{rules}:1e-14")
    for position in range(prev.shape[1]):
        source, prefix, heads = Twin(model, rules).relevance(src, prev, position)
        assert_close(relevance.source[0, position], source)
        assert_close(relevance.prefix[0, position], prefix)
        for name, shares in heads.items():
            assert_close(relevance.heads[name][0, position], shares)


OPTIONS = {
    "pre-LN": PRE_LN,
    "embeddings normed": {"layernorm_embedding": True},
    "shared embeddings": {"share_all_embeddings": True},
    "encoder of another width": {"encoder_embed_dim": 24, "encoder_ffn_embed_dim": 40},
    "heads differ": {"decoder_attention_heads": 2},
    "gelu": {"activation_fn": "gelu"},
    "quant-noise": {"quant_noise_pq": 0.1, "quant_noise_pq_block_size": 4},
    "layerdrop": {"encoder_layerdrop": 0.5, "decoder_layerdrop": 0.5},
    "activation checkpoints": {"checkpoint_activations": True},
}
MODELS = {
    **{name: ("transformer", options) for name, options in OPTIONS.items()},
    **{arch: (arch, {}) for arch in ("transformer_normalign", "transformer_align")},
    "BART": ("bart_base", {"share_all_embeddings": True}),
}


@pytest.mark.parametrize("name", MODELS)
def test_layers_are_computed_again_as_the_model_does(name):
    arch, options = MODELS[name]
    model = randomised(build_model(arch, **options))
    states = {}
    for side in ("encoder", "decoder"):
        for index, layer in enumerate(layers_of(getattr(model, side))):
            hook = lambda module, args, output, key=(side, index): states.update(  # noqa: E731
                {key: (args[0], output)}
            )
            layer.register_forward_hook(hook)
    walked = {}
    layer_of = relprop._Walk.layer

    def kept(walk, side, index, *args):
        walked[side, index], backs = layer_of(walk, side, index, *args)
        return walked[side, index], backs

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relprop._Walk, "layer", kept)
        relevance = propagate(model, SRC, PREV)
    real = {"encoder": SRC != PAD, "decoder": PREV != PAD}
    assert len(walked) == 4
    for (side, index), output in walked.items():
        expected = states[side, index][1]
        expected = (expected[0] if isinstance(expected, tuple) else expected).transpose(0, 1)
        torch.testing.assert_close(output[real[side]], expected[real[side]], rtol=1e-4, atol=1e-5)
    for cut, total in relevance.totals.items():
        ones = real["decoder"].float()
        torch.testing.assert_close(
            total, ones, rtol=1e-4, atol=1e-4, msg=lambda text, cut=cut: f"{cut}: {text}"
        )


@pytest.mark.parametrize("pooled", [False, True])
def test_voita_conserves_relevance_at_every_cut(model, pooled):
    relevance = propagate(model.float(), SRC, PREV, pooled=pooled)
    assert list(relevance.totals) == ["output", "decoder.2", "decoder.1", "encoder.2", "encoder.1"]
    starting = torch.ones(2, 1, dtype=torch.bool) if pooled else PREV != PAD
    for total in (*relevance.totals.values(), relevance.source.sum(-1) + relevance.prefix.sum(-1)):
        torch.testing.assert_close(total, starting.float(), rtol=1e-4, atol=1e-4)
    assert (relevance.source >= 0).all() and (relevance.prefix >= 0).all()


def test_epsilon_conserves_relevance_without_biases(model):
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.data.zero_()
    relevance = propagate(model, SRC, PREV, rules="epsilon")
    for total in relevance.totals.values():
        torch.testing.assert_close(total, (PREV != PAD).double(), rtol=0.01, atol=0.01)


@pytest.mark.parametrize("rules", RULES)
def test_all_predictions_at_once_equal_one_at_a_time(model, rules, monkeypatch):
    relevance = propagate(model, SRC, PREV, rules=rules)
    assert_same(propagate(model, SRC, PREV, rules=rules, at_once=1), relevance)
    monkeypatch.setattr(relprop, "GROUP", 1)
    monkeypatch.setattr(relprop, "GROUPS", 3)
    assert_same(propagate(model, SRC, PREV, rules=rules), relevance)


@pytest.mark.parametrize("rules", RULES)
def test_relevance_of_the_source_alone(model, rules):
    alone = propagate(model, SRC, PREV, rules=rules, only_source=True)
    assert_close(alone.source, propagate(model, SRC, PREV, rules=rules).source)
    assert ("decoder", 0) not in alone.heads


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("pooled", [False, True])
def test_padding_changes_nothing_and_receives_nothing(model, rules, pooled):
    relevance = propagate(model, SRC, PREV, rules=rules, pooled=pooled)
    for b, (keys, queries) in enumerate([(5, 4), (3, 2)]):
        rows = 1 if pooled else queries
        alone = propagate(
            model, SRC[b : b + 1, :keys], PREV[b : b + 1, :queries], rules=rules, pooled=pooled
        )
        heads = {name: part[b : b + 1, :rows] for name, part in relevance.heads.items()}
        totals = {cut: part[b : b + 1, :rows] for cut, part in relevance.totals.items()}
        source, prefix = relevance.source[b : b + 1], relevance.prefix[b : b + 1]
        assert_same((heads, source[:, :rows, :keys], prefix[:, :rows, :queries], totals), alone)
        assert not source[..., keys:].any() and not prefix[..., queries:].any()
        assert not source[:, rows:].any() and not prefix[:, rows:].any()


def test_sources_may_be_padded_on_the_left(model):
    left = torch.tensor([[5, 6, 7, 8, 2], [PAD, PAD, 9, 10, 2]])
    padded_left, expected = (propagate(model, src, PREV) for src in (left, SRC))
    assert_close(padded_left.source[1, :, 2:], expected.source[1, :, :3])
    assert_close(padded_left.prefix, expected.prefix)


@pytest.mark.parametrize("rules", ["epsilon", "attnlrp"])
def test_pooled_relevance_of_tokens_is_the_mean_where_rules_are_linear(model, rules):
    run = partial(propagate, model, SRC, PREV, rules=rules)
    exact, pooled = run(pooled=False), run(pooled=True)
    counts = (PREV != PAD).sum(1, keepdim=True)
    assert_close(pooled.source[:, 0], exact.source.sum(1) / counts)
    assert_close(pooled.prefix[:, 0], exact.prefix.sum(1) / counts)


def test_relevance_may_start_from_the_reference(model):
    logits = model(SRC, None, PREV)[0]
    run = partial(propagate, model, SRC, PREV, rules="epsilon")
    top, lowest = run(), run(targets=logits.argmin(-1))
    assert_same(run(targets=logits.argmax(-1)), top)
    assert (lowest.source - top.source).abs().max() > 0.01


@pytest.mark.parametrize("rules", RULES)
def test_a_closed_gate_leaves_no_relevance(model, rules):
    model.decoder.layers[1].encoder_attn.out_proj.weight.data[:, 4:8] = 0  # of the second head
    shares = propagate(model, SRC, PREV, rules=rules).heads["cross", 1][PREV != PAD]
    assert (shares[:, 1] == 0).all() and shares[:, [0, 2, 3]].all()


@pytest.mark.parametrize("rules", RULES)
def test_a_layer_without_heads_is_its_bias(model, rules):
    """All gates closed and all heads removed are the same, but for the number of heads."""
    both = []
    emptied = (("encoder", 0), ("cross", 1))
    for heads in (4, 0):
        if heads:
            for name in emptied:
                attentions(model)[name].out_proj.weight.data.zero_()
        else:
            counts = dict.fromkeys(attentions(model), 4)
            kept = [head for head in all_heads(counts) if head[:2] not in emptied]
            remove_heads(model, ",".join(map(str, kept)))
        both.append(propagate(model, SRC, PREV, rules=rules))
        for name in emptied:
            assert both[-1].heads[name].shape == (2, 4, heads) and not both[-1].heads[name].any()
    for part in ("source", "prefix"):
        assert_close(getattr(both[0], part), getattr(both[1], part))
    if rules == "voita":
        assert_close(both[0].totals["encoder.1"], (PREV != PAD).double())


def test_half_precision_is_computed_in_single():
    model = randomised(build_model())
    expected = propagate(model, SRC, PREV)
    relevance = propagate(model.half(), SRC, PREV, targets=model(SRC, None, PREV)[0].argmax(-1))
    assert relevance.source.dtype == torch.float32
    torch.testing.assert_close(relevance.source, expected.source, atol=0.02, rtol=0.02)


LINES = [("w1 w2 w3 w4", "w4 w5 w6"), ("w3", "w9 w8 w7 w6 w5"), ("", "w1"), ("w2 w2", "")]


@pytest.fixture
def pairs():
    return list(text_pairs(LINES, PairReader(ToyTask())))


@pytest.fixture
def forcing():
    forcing, _ = ready_model()
    randomised(forcing.model).double()
    return forcing


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("pooled", [False, True])
def test_splitting_changes_nothing(forcing, pairs, rules, pooled):
    run = partial(relevances, forcing, pairs, rules=rules, pooled=pooled)
    wholes = list(run(max_tokens=4000))
    assert len(wholes) == len(pairs)
    for max_tokens in (4000, 40, 1):
        for pair, whole, split in zip(pairs, wholes, run(max_tokens=max_tokens), strict=True):
            queries, keys = len(pair.target.tokens), len(pair.source.tokens)
            rows = 1 if pooled else queries
            assert split.source.shape == (rows, keys) and split.prefix.shape == (rows, queries)
            assert {shares.shape for shares in split.heads.values()} == {(rows, 4)}
            np.testing.assert_allclose(split.source, whole.source, **CLOSE)
            np.testing.assert_allclose(split.prefix, whole.prefix, **CLOSE)
            for name, shares in split.heads.items():
                np.testing.assert_allclose(shares, whole.heads[name], **CLOSE)
            for cut, deviation in split.deviation.items():
                assert deviation == pytest.approx(whole.deviation[cut], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("rules", RULES)
def test_a_model_that_overflows_is_refused_at_its_pair(forcing, pairs, rules):
    w9 = pairs[1].target.tokens[0]
    forcing.model.decoder.embed_tokens.weight.data[w9] = torch.inf
    by_pair = relevances(forcing, pairs, rules=rules, max_tokens=1)
    next(by_pair)
    with pytest.raises(InputError, match=r"^line 2: the model gives numbers that are not finite"):
        next(by_pair)


def test_the_model_is_left_as_it_was():
    model = build_model(dropout=0.5).train()
    expected = propagate(model, SRC, PREV)
    model.decoder.set_beam_size(2)  # what beam search leaves in BART
    assert_same(propagate(model, SRC, PREV), expected)
    assert model.training and model.decoder.layers[0].training
    assert model.decoder.layers[0].encoder_attn.beam_size == 2


def test_what_the_walk_does_not_know_is_refused():
    scaled = build_model(scale_fc=True, scale_heads=True, adaptive_softmax_cutoff="10,20")
    options = "--adaptive-softmax-cutoff, --scale-fc, --scale-heads,"
    with pytest.raises(InputError, match=f"TransformerModel was built with {options}"):
        propagate(scaled, SRC, PREV)
    encoder = build_model()
    encoder.decoder = None
    with pytest.raises(InputError, match="TransformerModel has no decoder attention in every la"):
        propagate(encoder, SRC, PREV)
