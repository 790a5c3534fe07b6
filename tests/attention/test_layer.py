"""Whole layers, and value zeroing, against the layers' own output and slow twins."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from fairseq.tasks.masked_lm import MaskedLMTask

from fairseq_normalign import load
from fairseq_normalign.attention.block import pair_norms
from fairseq_normalign.attention.layer import (
    ACTIVATIONS,
    Layer,
    feed_forward,
    layers_with,
    value_zeroing,
)
from fairseq_normalign.attention.methods import METHODS, Batch, method_of
from fairseq_normalign.attention.recorder import record_blocks, recorded_blocks
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import head_width, layers_of
from fairseq_normalign.names import KINDS
from tests.attention.test_recorder import MODELS, randomised
from tests.conftest import ToyTask, build_model

STEPS = 4000  # of the numeric integral
assert_close = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)


def run(model, kinds=tuple(KINDS), **batch):
    """The layers of a forward pass, and what each layer returned, (B, T, C)."""
    returned, handles = {}, []
    for side in ("encoder", "decoder"):
        for number, layer in enumerate(layers_of(getattr(model, side, None))):

            def keep(module, args, output, name=(side, number)):
                output = output[0] if isinstance(output, tuple) else output
                returned[name] = output.transpose(0, 1)

            handles.append(layer.register_forward_hook(keep))
    with torch.no_grad():
        with record_blocks(model, kinds) as blocks:
            model(**batch)
        layers = layers_with(model, blocks)
    for handle in handles:
        handle.remove()
    return layers, returned


ACTIVATION_OPTIONS = ("relu", "gelu", "gelu_accurate", "swish", "tanh")
WITH_ACTIVATIONS = {
    name: ("transformer", {"activation_fn": name}) for name in ACTIVATION_OPTIONS
} | MODELS


@pytest.mark.parametrize("name", WITH_ACTIVATIONS)
def test_parts_and_constant_add_up_to_what_the_layer_returns(batch, name):
    arch, options = WITH_ACTIVATIONS[name]
    layers, returned = run(randomised(build_model(arch, **options)), **batch)
    assert set(layers) == set(returned)
    for place, layer in layers.items():
        state, added, summed, normalised = layer.output
        assert_close(normalised, returned[place])
        assert_close(state, layer.block.output)
        assert_close(summed, state + added)
        assert_close(layer.feed_forward(state), returned[place])
        parts = {"itself", "prefix", "source"} if place[0] == "decoder" else {"itself", "context"}
        assert set(layer.parts) == parts


def slow_pass(layer: Layer, b: int, i: int, vector: torch.Tensor) -> list[torch.Tensor]:
    """The four forms of a summand of one query's state, by steps of a numeric integral."""
    net = layer.feed_forward
    state = layer.block.output[b, i].double()
    gain, shift = net.layer_norm.gain.double(), net.layer_norm.bias.double()
    w1, b1, w2 = net.first.double(), net.first_bias.double(), net.second.double()
    vector = vector.double()

    def normalised(u, entering):
        sigma = (entering.var(unbiased=False) + net.layer_norm.eps).sqrt()
        return gain * (u - u.mean()) / sigma

    read, summand = state, vector
    if net.before:
        read = normalised(state, state) + shift
        summand = normalised(vector, state)
    slopes = torch.zeros(len(b1), dtype=torch.float64)
    for step in range(STEPS):
        inner = ((step + 0.5) / STEPS * (w1 @ read) + b1).requires_grad_()
        slopes += torch.autograd.grad(net.activation(inner).sum(), inner)[0] / STEPS
    added = w2 @ (slopes * (w1 @ summand))
    summed = added + vector
    entering = state + F.linear(net.activation(w1 @ read + b1), w2, net.second_bias.double())
    return [vector, added, summed, summed if net.before else normalised(summed, entering)]


@pytest.mark.parametrize("before", [False, True], ids=["post-LN", "pre-LN"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
def test_a_summand_passes_as_by_a_numeric_integral(batch, before, activation):
    options = {"encoder_normalize_before": before, "decoder_normalize_before": before}
    model = randomised(build_model(activation_fn=activation, **options))
    layers, _ = run(model, **batch)
    for layer in layers.values():
        part = layer.parts["itself"]
        forms = layer.through(part)
        slow = torch.stack(slow_pass(layer, 0, 1, part[0, 1]))
        # A step of the integral may jump over the kink of ReLU.
        torch.testing.assert_close(forms[:, 0, 1].double(), slow, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", ["post-LN", "pre-LN", "some heads", "no heads"])
def test_norms_of_pairs_are_those_of_the_materialised_vectors(batch, name):
    arch, options = MODELS[name]
    layers, _ = run(randomised(build_model(arch, **options)), **batch)
    for layer in layers.values():
        block, below = layer.block, layer.below
        vectors = block.scaled(block.recorded.summed_vectors()) / block.deviation[:, :, None]
        if below is not None:
            of_target = below.scaled(below.recorded.summed_vectors()) / below.deviation[:, :, None]
            of_target = block.scaled(of_target) / block.deviation[:, :, None]
            vectors = torch.cat([vectors, of_target], dim=2)  # (B, T, S + T, C)
        shift = 0 if below is None else block.recorded.weights.shape[-1]
        for i in range(vectors.shape[1]):
            vectors[:, i, shift + i] = layer.parts["itself"][:, i]
        by_key = [layer.through(vectors[:, :, key]).norm(dim=-1) for key in range(vectors.shape[2])]
        norms = layer.pair_norms()
        torch.testing.assert_close(norms, torch.stack(by_key, -1), rtol=1e-4, atol=1e-5)
        if below is None:
            torch.testing.assert_close(norms[0], pair_norms(block)[0], rtol=1e-4, atol=1e-5)


def test_source_target_attention_alone_has_the_same_vectors_of_the_source(batch):
    model = randomised(build_model())
    whole, _ = run(model, **batch)
    alone, _ = run(model, ("cross",), **batch)
    for place, layer in alone.items():
        norms = layer.pair_norms()
        assert_close(norms, whole[place].pair_norms()[..., : norms.shape[-1]])
        assert_close(layer.output, whole[place].output)


def test_a_masked_model(batch):
    masked = MaskedLMTask.__new__(MaskedLMTask)
    masked.dictionary, masked.cfg = ToyTask().source_dictionary, ToyTask().args
    model = randomised(build_model("roberta", masked, max_positions=64))
    layers, returned = run(model, ("encoder",), src_tokens=batch["src_tokens"].flip(1))
    assert len(layers) == 2
    for place, layer in layers.items():
        assert_close(layer.output[-1], returned[place])


def test_where_the_argument_is_0_the_slope_is_the_derivative():
    net = feed_forward(randomised(build_model(activation_fn="gelu")), "encoder", 0)
    slope = net.slope(torch.zeros(32))
    bias = net.first_bias.double().requires_grad_()
    (derivative,) = torch.autograd.grad(ACTIVATIONS["gelu"](bias).sum(), bias)
    assert_close(slope, derivative.float())
    assert_close(net.slope(torch.full((32,), 1e-7)), slope)


def without_second_map():
    model = build_model()
    del model.decoder.layers[1].fc2
    return model


def gated():
    model = build_model()
    model.decoder.layers[1].fc3 = torch.nn.Linear(4, 4)  # as T5's w0 ⊙ w1
    return model


SQUARED = partial(build_model, activation_fn="relu_squared")
REFUSED = {
    ": activation relu_squared has no closed form": SQUARED,
    " also has ffn_layernorm": partial(build_model, scale_fc=True),
    " also has w_resid": partial(build_model, scale_resids=True),
    " also has fc3": gated,
    " has no feed-forward net of two linear": without_second_map,
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_divided_is_refused_by_name(message):
    with pytest.raises(InputError, match=f"decoder layer 2{message}"):
        feed_forward(REFUSED[message](), "decoder", 1)


def test_layer_norms_of_one_head_leave_the_other_heads_to_the_stream(batch):
    model = randomised(build_model())
    with torch.no_grad(), record_blocks(model, ("cross",)) as blocks:
        model(**batch)
    of_model = Batch(SimpleNamespace(model=model), [], {}, blocks)
    together = Layer(blocks["cross", 1], feed_forward(model, "decoder", 1))
    compute = METHODS["layer-norms"].compute
    assert_close(compute(of_model, 1, None), together.pair_norms()[-1])
    vectors = blocks["cross", 1].recorded.cut([2]).summed_vectors()
    scaled = together.block.scaled(vectors) / together.block.deviation[:, :, None]
    by_key = [together.through(scaled[:, :, key])[-1].norm(dim=-1) for key in range(5)]
    assert_close(compute(of_model, 1, 2), torch.stack(by_key, -1), rtol=1e-4)


# Value zeroing in closed form against a second forward pass with zeros.


def slow_zeroing(model, forward, number, tokens, *, whole=False, heads=slice(None)):
    """1 - cos of a decoder layer's states with and without each source token's value, (B, T, S).

    Before the feed-forward net, they are what the last attention block hands on.
    """
    layer = model.decoder.layers[number]
    attention = layer.encoder_attn
    kept = []

    def keep(module, args, output):
        kept.append(output[0] if isinstance(output, tuple) else output)

    def keep_input(module, args):
        kept.append(args[0])

    def zero(token, module, args, output):
        by_head = output.unflatten(-1, (attention.num_heads, head_width(attention))).clone()
        by_head[token, :, heads] = 0
        return by_head.flatten(-2)

    if whole:
        handle = layer.register_forward_hook(keep)
    elif layer.normalize_before:
        handle = layer.final_layer_norm.register_forward_pre_hook(keep_input)
    else:
        handle = layer.encoder_attn_layer_norm.register_forward_hook(keep)
    with torch.no_grad():
        forward()
        for token in range(tokens):
            with attention.v_proj.register_forward_hook(partial(zero, token)):
                forward()
    handle.remove()
    state, *without = kept  # (T, B, C) each
    changes = [1 - F.cosine_similarity(state.double(), other.double(), dim=-1) for other in without]
    changes = torch.stack(changes, -1).transpose(0, 1)
    return (changes / changes.sum(-1, keepdim=True)).float()


@pytest.mark.parametrize("heads", [slice(None), slice(1, 2)], ids=["all heads", "one head"])
@pytest.mark.parametrize("whole", [False, True], ids=["block", "layer"])
@pytest.mark.parametrize("name", ["post-LN", "pre-LN", "gated"])
def test_changes_are_those_of_explicit_zeros(batch, name, whole, heads):
    arch, options = MODELS[name]
    model = randomised(build_model(arch, **options))
    with torch.no_grad(), record_blocks(model, ("cross",)) as blocks:
        model(**batch)
    for number in range(2):
        net = feed_forward(model, "decoder", number) if whole else None
        shares = value_zeroing(blocks["cross", number], net, heads)
        expected = slow_zeroing(model, lambda: model(**batch), number, 5, whole=whole, heads=heads)
        torch.testing.assert_close(shares, expected, rtol=1e-4, atol=1e-5)


def test_without_heads_nothing_changes(batch):
    model = randomised(build_model("transformer_normalign", alive_heads="none"))
    with torch.no_grad(), record_blocks(model, ("cross",)) as blocks:
        model(**batch)
    assert not value_zeroing(blocks["cross", 0]).any()


@pytest.mark.slow
@pytest.mark.parametrize("model", ["deen", "ende"])
def test_real_pairs(data, model, tmp_path):
    """Both methods on 20 pairs of a trained model."""
    languages = (model[:2], model[2:])
    texts = []
    for language in languages:
        lines = (data / "deen" / f"test.{language}").read_text().splitlines()
        texts.append(lines[:20])
        dictionary = (data.parent / "checkpoints" / "dict.txt").read_text()
        (tmp_path / f"dict.{language}.txt").write_text(dictionary)
    (tmp_path / "spm.model").symlink_to(data / "deen" / "spm.model")
    (tmp_path / "model.pt").symlink_to(data.parent / "checkpoints" / f"{model}.pt")
    aligner = load(str(tmp_path))
    forcing = aligner.forcing
    for pair in aligner.read(list(zip(*texts, strict=True)))[0]:
        blocks = recorded_blocks(forcing, [pair], ("cross",))
        batch = Batch(forcing, [pair], {}, blocks)
        tokens = len(pair.source.tokens)
        for method, whole in (("value-zeroing", False), ("value-zeroing-ff", True)):
            shares = method_of(method).compute(batch, 2, None)
            expected = slow_zeroing(
                forcing.model, partial(forcing.forward, [pair]), 2, tokens, whole=whole
            )
            torch.testing.assert_close(shares, expected, rtol=0, atol=1e-5)
