import numpy as np
import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from fairseq_normalign.attention.block import mixing_ratios
from fairseq_normalign.attention.recorder import block_modules, check_finite, record, record_blocks
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import attentions, head_count
from fairseq_normalign.names import KINDS
from fairseq_normalign.plugin.gating import gates
from tests import conftest
from tests.conftest import PRE_LN, ToyTask, attention_output, build_model

MODELS = {
    "post-LN": ("transformer", {}),
    "pre-LN": ("transformer", PRE_LN),
    "gated": ("transformer_normalign", {"gate_heads": "all"}),
    "gated pre-LN": ("transformer_normalign", {"gate_heads": "all", **PRE_LN}),
    "some heads": ("transformer_normalign", {"alive_heads": "encoder.1.2 decoder.2.3 cross.2.1"}),
    "no heads": ("transformer_normalign", {"alive_heads": "none"}),
    "no heads pre-LN": ("transformer_normalign", {"alive_heads": "none", **PRE_LN}),
}


def randomised(model):
    """With all parameters random, and gates of which one is closed."""
    for projection in gates(conftest.randomised(model)).values():
        log_alpha = torch.tensor([-1.0, 0.0, 1.0, -5.0])
        projection.scaled_log_alpha.data = log_alpha / projection.lr_scale
    return model


@pytest.fixture(params=MODELS)
def model(request):
    arch, options = MODELS[request.param]
    return randomised(build_model(arch, **options))


DECODERS = ["post-LN", "gated", "some heads", "no heads"]


def hooks(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


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
    torch.testing.assert_close(plain, explicit, rtol=1e-4, atol=1e-5)


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


def test_keys_of_both_sides_are_refused():
    model = build_model(cross_self_attention=True)
    with record(model, ["encoder", "cross"]):
        pass
    message = "decoder attention of layer 1 uses --cross-self-attention: its keys are of both sides"
    with pytest.raises(InputError, match=message), record(model, ["decoder"]):
        pass


# Incremental decoding: one token at a time, with the keys and values of earlier ones kept by
# fairseq.


def last_row(recorded, queries: int, keys: int):
    """Weights and norms of the last of some queries in a teacher-forced pass."""
    norms = recorded.norms
    return (
        recorded.weights[:, :, queries - 1 : queries, :keys],
        norms.transformed[:, :, :keys],
        norms.weighted[:, :, queries - 1 : queries, :keys],
        norms.summed[:, queries - 1 : queries, :keys],
    )


@pytest.mark.parametrize("model", DECODERS, indirect=True)
def test_a_step_of_decoding_is_a_row_of_the_forced_pass(batch, model):
    target = torch.tensor([[2, 11, 12, 13], [2, 14, 15, 16]])
    with torch.no_grad(), record(model, KINDS) as forced:
        model(**{**batch, "prev_output_tokens": target})
    encoder_out = model.encoder(batch["src_tokens"], batch["src_lengths"])
    state = {}
    with torch.no_grad(), record(model, ("decoder", "cross")) as recording:
        for length in range(1, 5):
            model.decoder(target[:, :length], encoder_out, incremental_state=state)
            for (kind, layer), recorded in recording.items():
                keys = length if kind == "decoder" else batch["src_tokens"].shape[1]
                of_step = (recorded.weights, *recorded.norms)
                expected = last_row(forced[kind, layer], length, keys)
                for part, other in zip(of_step, expected, strict=True):
                    torch.testing.assert_close(part, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", DECODERS, indirect=True)
@pytest.mark.parametrize(("beam", "shared"), [(1, False), (3, False), (3, True)])
def test_the_parts_add_up_at_every_step_of_beam_search(batch, model, beam, shared):
    """Beams of a sentence have values of its source for themselves, or share them, as in BART."""
    if shared:
        model.decoder.set_beam_size(beam)
    generator = SequenceGenerator([model], ToyTask().target_dictionary, beam_size=beam, max_len_b=8)
    plain = generator.generate([model], {"net_input": batch})
    steps = dict.fromkeys(attentions(model), 0)
    with record(model, KINDS) as recording:
        for name, attention in attentions(model).items():

            def check(module, args, output, name=name):
                steps[name] += 1
                recorded = recording[name]
                assert recorded.weights.shape[1] == head_count(module)
                assert recorded.weights.shape[3] == (steps[name] if name[0] == "decoder" else 5)
                rebuilt = attention_output(recorded).transpose(0, 1)
                torch.testing.assert_close(rebuilt, output[0], rtol=1e-4, atol=1e-5)

            attention.register_forward_hook(check)
        recorded_too = generator.generate([model], {"net_input": batch})
    assert steps["decoder", 1] == steps["cross", 0] > 3
    for beams, expected in zip(recorded_too, plain, strict=True):
        for hypothesis, other in zip(beams, expected, strict=True):
            assert hypothesis["tokens"].tolist() == other["tokens"].tolist()


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_the_first_sentence_with_others_is_named(bad):
    numbers = np.zeros((3, 2, 2))
    numbers[1:, 0, 1] = bad
    with pytest.raises(InputError, match=r"^line 7: the model gives numbers that are not finite"):
        check_finite(numbers, ["line 4", "line 7", "line 9"])


# Whole blocks.


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


def test_batches_and_padding_change_nothing_in_blocks(batch, model):
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
