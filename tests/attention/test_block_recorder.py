import pytest
import torch
from torch import nn

from fairseq_normalign.attention.block import mixing_ratios
from fairseq_normalign.attention.recorder import block_modules, record_blocks
from fairseq_normalign.errors import InputError
from fairseq_normalign.names import KINDS
from fairseq_normalign.plugin.gating import gates
from tests.conftest import build_model

PRE = {"encoder_normalize_before": True, "decoder_normalize_before": True}
MODELS = {
    "post-LN": ("transformer", {}),
    "pre-LN": ("transformer", PRE),
    "gated": ("transformer_normalign", {"gate_heads": "all"}),
    "gated pre-LN": ("transformer_normalign", {"gate_heads": "all", **PRE}),
    "some heads": ("transformer_normalign", {"alive_heads": "encoder.1.2 decoder.2.3 cross.2.1"}),
    "no heads": ("transformer_normalign", {"alive_heads": "none"}),
    "no heads pre-LN": ("transformer_normalign", {"alive_heads": "none", **PRE}),
}


def randomised(model):
    """The model with all parameters random: fresh biases are 0, and fresh gains 1."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
        for projection in gates(model).values():
            log_alpha = torch.tensor([-1.0, 0.0, 1.0, -5.0])
            projection.scaled_log_alpha.copy_(log_alpha / projection.lr_scale)
    return model


@pytest.fixture(params=MODELS)
def model(request):
    arch, options = MODELS[request.param]
    return randomised(build_model(arch, **options))


def outputs_of_blocks(model) -> dict:
    """What each block hands on, kept by hooks of the test's own.

    In post-LN it is what the layer norm returns, in pre-LN what the next layer norm reads.
    """
    kept = {}
    for (kind, layer), (_, layer_norm, before) in block_modules(model).items():
        module = getattr(model, KINDS[kind].side).layers[layer]
        following = "encoder_attn_layer_norm" if kind == "decoder" else "final_layer_norm"
        watched = getattr(module, following) if before else layer_norm

        def keep(module, args, output, name=(kind, layer), before=before):
            kept[name] = args[0] if before else output

        watched.register_forward_hook(keep)
    return kept


def test_the_terms_add_up_to_the_output_of_every_block(batch, model):
    kept = outputs_of_blocks(model)
    with torch.no_grad(), record_blocks(model, KINDS) as blocks:
        model(**batch)
    assert set(blocks) == {(kind, layer) for kind in KINDS for layer in range(2)}
    for name, block in blocks.items():
        torch.testing.assert_close(block.output, kept[name].transpose(0, 1), rtol=1e-5, atol=1e-5)


def test_batches_and_padding_change_nothing(batch, model):
    """Sources are padded on the left here, so that nothing but the mask tells padding."""
    with torch.no_grad(), record_blocks(model, KINDS) as blocks:
        model(**batch)
        together = {name: mixing_ratios(block)[:, 1] for name, block in blocks.items()}
        model(
            batch["src_tokens"][1:, 2:],
            batch["src_lengths"][1:],
            batch["prev_output_tokens"][1:, :2],
        )
        alone = {name: mixing_ratios(block)[:, 0] for name, block in blocks.items()}
    for (kind, layer), ratios in together.items():
        unpadded = ratios[:, 2:] if kind == "encoder" else ratios[:, :2]
        torch.testing.assert_close(unpadded, alone[kind, layer], rtol=1e-4, atol=1e-5)


def test_some_layers(batch):
    model = build_model()
    with torch.no_grad(), record_blocks(model, ("encoder", "cross"), layers=[1]) as blocks:
        model(**batch)
    assert set(blocks) == {("encoder", 1), ("cross", 1)}


def test_a_sentence_of_one_token_mixes_nothing():
    model = randomised(build_model())
    with torch.no_grad(), record_blocks(model, KINDS) as blocks:
        model(torch.tensor([[2]]), torch.tensor([1]), torch.tensor([[2]]))
    for kind in ("encoder", "decoder"):
        assert not mixing_ratios(blocks[kind, 0]).any()
    assert mixing_ratios(blocks["cross", 0])[3:].gt(0).all()


def test_a_closed_gate_is_a_head_less():
    """Norms cannot tell a gate that is closed from a head that was removed."""
    alive = "encoder.1.1 encoder.1.2 encoder.1.3"
    pruned = build_model("transformer_normalign", alive_heads=alive)
    gated = build_model("transformer_normalign", gate_heads="encoder")
    with torch.no_grad():
        closed = torch.tensor([5.0, 5.0, 5.0, -5.0])
        projection = gates(gated)["encoder", 0]
        projection.scaled_log_alpha.copy_(closed / projection.lr_scale)
    tokens = torch.tensor([[5, 6, 7, 2]])
    lengths = torch.tensor([4])
    ratios = []
    for model in (pruned, gated):
        with torch.no_grad(), record_blocks(model, ("encoder",)) as blocks:
            model.encoder(tokens, lengths)
        ratios.append(mixing_ratios(blocks["encoder", 0])[[1, 3, 4]])
    torch.testing.assert_close(*ratios, rtol=1e-4, atol=1e-5)


def test_what_the_values_are_made_of(batch):
    model = build_model(**PRE)
    with torch.no_grad(), record_blocks(model, KINDS) as blocks:
        model(**batch)
    block = blocks["encoder", 0]
    normalised = model.encoder.layers[0].self_attn_layer_norm(block.residual)
    torch.testing.assert_close(block.inputs, normalised, rtol=1e-4, atol=1e-5)


def test_nothing_is_left_on_the_model_even_when_the_forward_fails(batch):
    model = build_model()
    with pytest.raises(IndexError), record_blocks(model, KINDS):
        model(batch["src_tokens"] + 1000, batch["src_lengths"], batch["prev_output_tokens"])
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]
    assert not any(hooks)


def test_half_precision(batch):
    """The layer norm itself is computed in half precision there, its decomposition is not."""
    model = randomised(build_model()).bfloat16()
    with torch.no_grad(), record_blocks(model, KINDS) as blocks:
        model(**batch)
    for block in blocks.values():
        ratios = mixing_ratios(block)
        assert ratios.dtype == torch.float32
        assert ratios.isfinite().all()


REFUSED = {
    "--scale-attn": {"scale_attn": True},
    "--scale-heads": {"scale_heads": True},
    "--cross-self-attention": {"cross_self_attention": True, "no_cross_attention": True},
}


@pytest.mark.parametrize("option", REFUSED)
def test_what_stands_between_attention_and_residual_is_refused_by_name(option):
    model = build_model(**REFUSED[option])
    with (
        pytest.raises(InputError, match=f"decoder attention of layer 1 uses {option}"),
        record_blocks(model, ("decoder",)),
    ):
        pass
    with record_blocks(model, ("encoder",)):  # which it says nothing of
        pass


def test_a_residual_connection_of_its_own_is_refused():
    model = build_model()
    layer = model.encoder.layers[1]

    class Halved(type(layer)):
        def residual_connection(self, x, residual):
            return residual + x / 2

    layer.__class__ = Halved
    with (
        pytest.raises(InputError, match=r"layer 2 is in a Halved, which has a residual connection"),
        record_blocks(model, ("encoder",)),
    ):
        pass


def test_a_layer_that_is_not_known_is_refused():
    model = build_model()
    model.encoder.layers[0] = nn.Module()
    model.encoder.layers[0].self_attn = model.encoder.layers[1].self_attn
    with (
        pytest.raises(InputError, match="layer 1 is in a Module, which has no residual connection"),
        record_blocks(model, ("encoder",)),
    ):
        pass


def test_an_attention_that_the_model_lacks_is_refused():
    model = build_model(no_cross_attention=True)
    with pytest.raises(InputError, match="has no cross attention"), record_blocks(model, KINDS):
        pass
