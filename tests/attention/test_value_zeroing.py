"""Value zeroing in closed form against a second forward pass with zeros."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from fairseq_normalign import load
from fairseq_normalign.attention.layer import feed_forward, value_zeroing
from fairseq_normalign.attention.methods import Batch, method_of
from fairseq_normalign.attention.recorder import record_blocks, recorded_blocks
from fairseq_normalign.host.attention_modules import head_width
from tests.attention.test_recorder import MODELS, randomised
from tests.conftest import build_model

assert_close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)


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
        assert_close(shares, expected)


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
