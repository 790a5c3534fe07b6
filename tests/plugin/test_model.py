import torch

from fairseq_normalign.heads.names import KINDS
from fairseq_normalign.host.recorder import record
from tests.conftest import build_model


def test_export_gives_what_the_recorder_gives(batch):
    model = build_model("transformer_normalign")
    with torch.no_grad():
        plain, _ = model(**batch)
        logits, extra = model(**batch, export=KINDS)
        with record(model, KINDS) as recording:
            model(**batch)
    torch.testing.assert_close(logits, plain, rtol=1e-4, atol=1e-5)
    for kind in KINDS:  # exactly: both take the same path
        for layer in (0, 1):
            assert torch.equal(extra["attentions"][kind][layer], recording[kind, layer].weights)
            assert torch.equal(
                extra["norms"][kind][layer].summed, recording[kind, layer].norms.summed
            )


def test_without_a_request_nothing_is_exported(batch):
    _, extra = build_model("transformer_normalign")(**batch)
    assert "norms" not in extra
    assert "attentions" not in extra


def test_a_criterion_can_train_on_norms(batch):
    model = build_model("transformer_normalign").train()
    _, extra = model(**batch, export=["cross"])
    assert model.training
    extra["norms"]["cross"][0].summed.sum().backward()
    assert model.decoder.layers[0].encoder_attn.q_proj.weight.grad.abs().sum() > 0
    assert model.encoder.layers[0].fc1.weight.grad.abs().sum() > 0


def test_plain_weights_load_and_come_back(batch):
    plain, variant = build_model("transformer"), build_model("transformer_normalign", dropout=0.3)
    torch.nn.init.normal_(plain.decoder.layers[0].encoder_attn.q_proj.weight)
    variant.load_state_dict(plain.state_dict(), strict=True)
    assert torch.equal(plain(**batch)[0], variant(**batch)[0])
    plain.load_state_dict(variant.state_dict(), strict=True)


def test_layers_that_were_dropped_are_none(batch):
    model = build_model("transformer_normalign", decoder_layerdrop=0.999).train()
    torch.manual_seed(0)
    _, extra = model(**batch, export=["cross"])
    assert extra["norms"]["cross"] == extra["attentions"]["cross"] == [None, None]
