import pytest
import torch
from torch import nn

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import (
    attentions,
    gate_values,
    out_bias,
    out_weight,
    refuse_unsupported,
    single_beam,
    stored_out_weight,
)
from tests.conftest import build_model


def test_weights_of_a_gated_attention_are_those_it_used():
    model = build_model("transformer_normalign", gate_heads="cross", gate_init=0.0).train()
    attention = attentions(model)["cross", 0]
    used = attention.out_proj.weight  # draws
    assert torch.equal(out_weight(attention), used)
    assert not torch.equal(stored_out_weight(attention), used)
    assert out_bias(attention) is attention.out_proj.bias
    assert gate_values(attention).tolist() == pytest.approx([0.5] * 4, rel=1e-4)
    assert gate_values(attentions(model)["encoder", 0]) is None


def test_sentences_are_not_taken_for_beams(batch):
    model = build_model()
    expected = model(**batch)[0]
    model.decoder.set_beam_size(2)
    with pytest.raises(KeyError), single_beam(model):
        torch.testing.assert_close(model(**batch)[0], expected, rtol=1e-4, atol=1e-5)
        raise KeyError
    assert [layer.encoder_attn.beam_size for layer in model.decoder.layers] == [2, 2]


def test_unsupported_attentions_are_named():
    with pytest.raises(InputError, match="cross attention of layer 2 is a Linear; expected"):
        refuse_unsupported(("cross", 1), nn.Linear(2, 2))
    attention = build_model().decoder.layers[0].encoder_attn
    refuse_unsupported(("cross", 0), attention)
    attention.add_zero_attn = True
    with pytest.raises(InputError, match="cross attention of layer 1 uses add_bias_kv or add_zero"):
        refuse_unsupported(("cross", 0), attention)
    attention.use_xformers = True
    with pytest.raises(InputError, match="uses --decoder-xformers-att-config, which returns no"):
        refuse_unsupported(("cross", 0), attention)
