import pytest
import torch
from torch import nn

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.recorder import KINDS, attentions, record
from fairseq_normalign.norms.contributions import attention_output
from tests.conftest import build_model


def outputs_of(model, name):
    """What one attention returns, kept by a hook of the test's own."""
    kept = []
    attentions(model)[name].register_forward_hook(
        lambda module, args, output: kept.append(output[0])
    )
    return kept


def hooks(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


@pytest.mark.parametrize("normalize_before", [False, True])
def test_the_parts_add_up_to_the_output_of_every_attention(batch, normalize_before):
    model = build_model(
        encoder_normalize_before=normalize_before, decoder_normalize_before=normalize_before
    )
    kept = {name: outputs_of(model, name) for name in attentions(model)}
    with torch.no_grad(), record(model, KINDS) as recording:
        model(**batch)
    assert set(recording) == {(kind, layer) for kind in KINDS for layer in range(2)}
    for name, recorded in recording.items():
        torch.testing.assert_close(
            attention_output(recorded), kept[name][0].transpose(0, 1), atol=1e-5, rtol=0
        )


def test_weights_are_distributions_and_padding_gets_nothing(batch):
    model = build_model()
    with record(model, ("cross",)) as recording:
        model(**batch)
    weights = recording["cross", 1].weights
    assert weights.shape == (2, 4, 4, 5)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 4))
    assert weights[1, :, :, :2].eq(0).all()
    assert recording["cross", 1].norms.summed[1, :, :2].eq(0).all()


def test_outputs_are_those_of_the_untouched_model(batch):
    model = build_model()
    with torch.no_grad():
        plain, extra = model(**batch)
        with record(model, ("cross",)):
            recorded, recorded_extra = model(**batch)
        with record(model, KINDS):
            explicit, _ = model(**batch)
    assert torch.equal(plain, recorded)  # cross-attention takes the explicit path anyway
    assert torch.equal(extra["attn"][0], recorded_extra["attn"][0])
    torch.testing.assert_close(plain, explicit, atol=1e-6, rtol=1e-6)


def test_batches_and_padding_change_nothing(batch):
    model = build_model()
    with record(model, ("cross",)) as recording:
        model(**batch)
        together = recording["cross", 0].norms.summed[1:, :2, 2:]
        model(
            batch["src_tokens"][1:, 2:],
            batch["src_lengths"][1:],
            batch["prev_output_tokens"][1:, :2],
        )
        alone = recording["cross", 0].norms.summed
    torch.testing.assert_close(together, alone)


def test_hooks_come_off_and_modes_come_back_even_when_the_forward_fails(batch):
    model = build_model()
    model.decoder.train()
    modes = [module.training for module in model.modules()]
    with pytest.raises(IndexError), record(model, KINDS):
        assert not any(module.training for module in model.modules())
        model(**{**batch, "src_tokens": batch["src_tokens"] + 1000})
    assert hooks(model) == 0
    assert modes == [module.training for module in model.modules()]
    assert not any(attention.skip_embed_dim_check for attention in attentions(model).values())


def test_recorders_nest(batch):
    model = build_model()
    with (
        torch.no_grad(),
        record(model, ("cross",)) as outer,
        record(model, KINDS, layers=[1]) as inner,
    ):
        _, extra = model(**batch)
    assert set(inner) == {(kind, 1) for kind in KINDS}
    assert torch.equal(outer["cross", 1].weights, inner["cross", 1].weights)
    assert extra["attn"][0].shape == (2, 4, 5)  # what fairseq asked for: heads averaged


def test_nothing_is_kept_that_was_not_asked_for(batch):
    model = build_model()
    with record(model, ("cross",), layers=[0], values=False) as recording:
        model(**batch)
    assert set(recording) == {("cross", 0)}
    assert recording["cross", 0].values is None


def test_the_graph_is_not_held(batch):
    model = build_model()
    with record(model, KINDS) as recording:
        model(**batch)
    recorded = recording["decoder", 0]
    assert not any(
        t.requires_grad for t in (recorded.weights, recorded.values, recorded.out_weight)
    )


def test_unsupported_attention_is_refused_by_name():
    model = build_model()
    model.decoder.layers[1].encoder_attn = nn.Linear(2, 2)
    with (
        pytest.raises(
            InputError, match="cross attention of layer 2 is a Linear; expected fairseq's Multihead"
        ),
        record(model),
    ):
        pass
