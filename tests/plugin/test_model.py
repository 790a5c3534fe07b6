from argparse import Namespace

import pytest
import torch
from fairseq import options

from fairseq_normalign.attention.quantities import QUANTITIES
from fairseq_normalign.attention.recorder import record
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import attentions, out_bias
from fairseq_normalign.names import KINDS
from tests.conftest import build_model
from tests.stored import store


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_export_gives_what_the_recorder_gives(batch, quantity):
    model = build_model("transformer_normalign")
    with torch.no_grad():
        plain, nothing = model(**batch)
        logits, extra = model(**batch, export=dict.fromkeys(KINDS, quantity))
        with record(model, KINDS) as recording:
            model(**batch)
    assert quantity not in nothing
    torch.testing.assert_close(logits, plain, rtol=1e-4, atol=1e-5)
    for (kind, layer), recorded in recording.items():  # exactly: both take the same path
        exported = extra[quantity][kind][layer]
        assert torch.equal(exported, QUANTITIES[quantity].compute(recorded))
        assert exported.dim() == 1 + len(QUANTITIES[quantity].axes)


@pytest.mark.parametrize("gates", [None, "all"])
def test_vectors_and_bias_add_up_to_the_output_of_every_attention(batch, gates):
    """In training too, whose gates are drawn anew in each pass; without dropout."""
    model = build_model("transformer_normalign", gate_heads=gates, dropout=0).train()
    outputs = {}
    for name, attention in attentions(model).items():
        torch.nn.init.normal_(out_bias(attention))
        attention.register_forward_hook(
            lambda module, args, output, name=name: outputs.update({name: output[0]})
        )
    _, extra = model(**batch, export={kind: ["vectors", "head-vectors"] for kind in KINDS})
    for (kind, layer), output in outputs.items():
        summed, by_head = (extra[name][kind][layer] for name in ("vectors", "head-vectors"))
        bias = out_bias(attentions(model)[kind, layer])
        expected = output.transpose(0, 1)  # (B, T, C)
        for parts in (summed.sum(2), by_head.sum((1, 3))):
            torch.testing.assert_close(parts + bias, expected, rtol=0, atol=1e-5)
        torch.testing.assert_close(by_head.sum(1), summed, rtol=1e-4, atol=1e-5)


UNKNOWN = {
    r"unknown quantity 'norm' of cross attention; known: weights, head-norms, norms, ": {
        "cross": ["norm"]
    },
    "NormalignTransformer has no 'self' attention; it has: encoder, decoder, cross": {"self": []},
    "no layer 2 of cross attention; its layers are 0 to 1": {"cross": {"norms": [2]}},
    "no layer -3 of cross attention; its layers are 0 to 1": {"cross": {"norms": -3}},
}


@pytest.mark.parametrize("message", UNKNOWN)
def test_what_is_unknown_is_refused(batch, message):
    with pytest.raises(InputError, match=message):
        build_model("transformer_normalign")(**batch, export=UNKNOWN[message])


@pytest.mark.parametrize("quantity", ["vectors", "head-vectors", "norms", "weights"])
def test_a_criterion_can_train_on_quantities(batch, quantity):
    model = build_model("transformer_normalign").train()
    _, extra = model(**batch, export={"cross": {quantity: [1]}})
    assert model.training
    extra[quantity]["cross"][1].square().sum().backward()
    assert model.decoder.layers[1].encoder_attn.q_proj.weight.grad.abs().sum() > 0
    assert model.encoder.layers[0].fc1.weight.grad.abs().sum() > 0


def test_plain_weights_load_and_come_back(batch):
    plain, variant = build_model("transformer"), build_model("transformer_normalign", dropout=0.3)
    torch.nn.init.normal_(plain.decoder.layers[0].encoder_attn.q_proj.weight)
    variant.load_state_dict(plain.state_dict(), strict=True)
    assert torch.equal(plain(**batch)[0], variant(**batch)[0])
    plain.load_state_dict(variant.state_dict(), strict=True)


SIZES = {
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_embed_dim": 16,
    "decoder_ffn_embed_dim": 32,
    "decoder_attention_heads": 4,
    "share_all_embeddings": True,
    "decoder_normalize_before": True,
    "activation_fn": "gelu",
    "encoder_learned_pos": True,
    "max_source_positions": 64,
}


@pytest.mark.parametrize("arch", ["transformer_normalign", "transformer_normalign_tiny"])
def test_sizes_are_those_of_the_model_that_is_fine_tuned(arch, tmp_path, monkeypatch):
    full = store(tmp_path / "full.pt", **SIZES, dropout=0.7)
    words = f"data-bin --arch {arch} --optimizer adam --save-dir {tmp_path}".split()
    words += ["--finetune-from-model", full]

    def parsed(*more) -> Namespace:
        monkeypatch.setattr("sys.argv", ["fairseq-train", *words, *more])
        return options.parse_args_and_arch(options.get_training_parser())

    args = parsed()
    assert {name: getattr(args, name) for name in SIZES} == SIZES
    assert args.dropout == 0.1
    named = parsed("--decoder-layers", "5", "--activation-fn", "relu")
    assert (named.decoder_layers, named.activation_fn, named.encoder_layers) == (5, "relu", 2)
