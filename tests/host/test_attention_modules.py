import pytest
import torch
from torch import nn

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.pruning import fold_gates
from fairseq_normalign.host.attention_modules import (
    attentions,
    count_heads,
    gate_values,
    keep_heads,
    out_bias,
    out_weight,
    refuse_unsupported,
    single_beam,
    stored_out_weight,
)
from fairseq_normalign.names import Head
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
    with pytest.raises(InputError, match="cross attention of layer 2 is a Linear, perhaps"):
        refuse_unsupported(("cross", 1), nn.Linear(2, 2))
    attention = build_model().decoder.layers[0].encoder_attn
    refuse_unsupported(("cross", 0), attention)
    attention.use_xformers = True
    with pytest.raises(InputError, match="layer 1 is a MultiheadAttention, perhaps with xformers"):
        refuse_unsupported(("cross", 0), attention)


PREFIX = "encoder.layers.0.self_attn."
DIMS = {"encoder": 2, "decoder": 2, "cross": 2}


def attention_state(prefix: str = PREFIX, heads: int = 3, width: int = 6) -> dict:
    torch.manual_seed(0)
    state = {f"{prefix}{name}_proj.weight": torch.randn(2 * heads, width) for name in "qkv"}
    state.update({f"{prefix}{name}_proj.bias": torch.randn(2 * heads) for name in "qkv"})
    return {
        **state,
        f"{prefix}out_proj.weight": torch.randn(width, 2 * heads),
        f"{prefix}out_proj.bias": torch.randn(width),
    }


def projected(state: dict, x: torch.Tensor, name: str) -> torch.Tensor:
    weight, bias = state[f"{PREFIX}{name}_proj.weight"], state[f"{PREFIX}{name}_proj.bias"]
    return x @ weight.t() + bias


def run(state: dict, x: torch.Tensor, heads: int) -> torch.Tensor:
    """Self-attention of one sentence, (T, C), head by head as the formulas say."""
    q, k, v = (projected(state, x, name) for name in "qkv")
    output = state[f"{PREFIX}out_proj.bias"].expand(x.shape).clone()
    for head in range(heads):
        part = slice(2 * head, 2 * head + 2)
        weights = torch.softmax(q[:, part] @ k[:, part].t() / 2**0.5, dim=1)
        output += weights @ v[:, part] @ state[f"{PREFIX}out_proj.weight"][:, part].t()
    return output


def test_closed_and_removed_are_the_same():
    state, x = attention_state(), torch.randn(4, 6)
    gated = {
        **state,
        f"{PREFIX}out_proj.log_alpha": torch.tensor([-9.0, 0.4, 9.0]),
        "steering.factor_units": torch.tensor(1),
    }
    folded = fold_gates(gated)
    assert set(folded) == set(state)
    smaller = keep_heads(folded, [Head("encoder", 0, 1), Head("encoder", 0, 2)], DIMS)
    assert torch.allclose(run(folded, x, 3), run(smaller, x, 2), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(run(state, x, 3), run(smaller, x, 2), atol=1e-2)
    assert count_heads(state, DIMS) == {("encoder", 0): 3}
    assert count_heads(smaller, DIMS) == {("encoder", 0): 2}
    assert smaller[f"{PREFIX}k_proj.bias"].tolist() == state[f"{PREFIX}k_proj.bias"][2:].tolist()
