import pytest
import torch
from torch import nn

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import (
    attentions,
    explicit_path,
    gate_values,
    head_count,
    head_counts,
    head_width,
    out_bias,
    out_weight,
    projections,
    refuse_unsupported,
    single_beam,
    split_heads,
    stored_out_weight,
)
from fairseq_normalign.names import KINDS
from tests.conftest import build_model


def test_attentions_are_named_by_kind_and_layer():
    model = build_model()
    by_name = attentions(model)
    assert list(by_name) == [(kind, layer) for kind in KINDS for layer in (0, 1)]
    assert by_name["cross", 1] is model.decoder.layers[1].encoder_attn
    assert head_counts(model) == dict.fromkeys(by_name, 4)


def test_sizes_of_a_pruned_attention():
    model = build_model("transformer_normalign", alive_heads="cross.1.2 cross.1.3")
    for name, heads in ((("cross", 0), 2), (("cross", 1), 0)):
        attention = attentions(model)[name]
        assert (head_count(attention), head_width(attention)) == (heads, 4)
        assert out_weight(attention).shape == (16, 4 * heads)
        for projection in projections(attention):
            assert projection.weight.shape == (4 * heads, 16)


def test_weights_of_a_gated_attention_are_those_it_used():
    model = build_model("transformer_normalign", gate_heads="cross", gate_init=0.0).train()
    attention = attentions(model)["cross", 0]
    used = attention.out_proj.weight  # draws
    assert torch.equal(out_weight(attention), used)
    assert not torch.equal(stored_out_weight(attention), used)
    assert out_bias(attention) is attention.out_proj.bias
    assert gate_values(attention).tolist() == pytest.approx([0.5] * 4, rel=1e-4)
    assert gate_values(attentions(model)["encoder", 0]) is None


def test_heads_are_split_in_their_order():
    projected = torch.arange(2 * 3 * 4).view(2, 3, 4)  # (S, B, H·D)
    split = split_heads(projected, 2, 2)
    assert split.shape == (3, 2, 2, 2)
    assert split[1, 0, 1].tolist() == projected[1, 1, :2].tolist()


def test_the_explicit_path_ends_with_its_context():
    chosen = list(attentions(build_model()).values())
    chosen[0].skip_embed_dim_check = True
    with pytest.raises(KeyError), explicit_path(chosen):
        assert all(attention.skip_embed_dim_check for attention in chosen)
        raise KeyError
    assert [attention.skip_embed_dim_check for attention in chosen] == [True] + 5 * [False]


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
