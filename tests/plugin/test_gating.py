import io
from functools import partial

import pytest
import torch

from fairseq_normalign.attention.recorder import record
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import attentions
from fairseq_normalign.host.compat import without_leftovers
from fairseq_normalign.names import KINDS
from fairseq_normalign.plugin.criterion import L0Criterion, L0CriterionConfig
from fairseq_normalign.plugin.gating import GatedProjection, Steering, gates
from tests.conftest import ToyTask, build_model


def gated(**options):
    return build_model("transformer_normalign", gate_heads="all", **options)


def set_gates(model, values) -> None:
    """log α of each attention, or of all alike."""
    with torch.no_grad():
        for projection in gates(model).values():
            projection.scaled_log_alpha.copy_(torch.as_tensor(values) / projection.lr_scale)


def test_open_gates_change_nothing(batch):
    plain, model = build_model(), gated(gate_init=3.0)
    model.load_state_dict(plain.state_dict())
    assert torch.equal(model(**batch)[0], plain(**batch)[0])


@pytest.mark.parametrize("explicit", [False, True])
def test_a_gate_multiplies_its_head_on_both_paths(batch, explicit):
    values = torch.tensor([0.0, 0.2227, 0.7773, 1.0])
    plain, model = build_model(), gated()
    model.load_state_dict(plain.state_dict())
    set_gates(model, [-5.0, -1.0, 1.0, 5.0])
    with torch.no_grad():
        for attention in attentions(plain).values():
            attention.out_proj.weight *= values.repeat_interleave(4)
    for attention in [*attentions(plain).values(), *attentions(model).values()]:
        attention.skip_embed_dim_check = explicit
    assert torch.allclose(model(**batch)[0], plain(**batch)[0], rtol=1e-4, atol=1e-4)
    with torch.no_grad(), record(plain, KINDS) as expected:
        plain(**batch)
    with torch.no_grad(), record(model, KINDS) as recording:
        model(**batch)
    for name in expected:  # norms are those of what the gates let through
        norms, plain_norms = recording[name].norms.summed, expected[name].norms.summed
        assert torch.allclose(norms, plain_norms, rtol=1e-4, atol=1e-4)


def test_training_draws_and_evaluation_does_not():
    projection = gates(gated(gate_init=0.0).train())["encoder", 0]
    assert not torch.equal(projection.weight, projection.weight)
    projection.eval()
    assert torch.equal(projection.weight, projection.weight)
    halved = 0.5 * projection._parameters["weight"]
    assert torch.allclose(projection.weight, halved, rtol=1e-4)


def test_keys_are_those_of_fairseq_and_log_alpha():
    plain, model = build_model(), gated(gate_init=1.5, gate_lr_scale=20.0)
    extra = set(model.state_dict()) - set(plain.state_dict())
    assert extra == {"steering._extra_state"} | {
        key.replace("weight", "log_alpha")
        for key in plain.state_dict()
        if key.endswith("out_proj.weight")
    }
    log_alpha = model.state_dict()["encoder.layers.0.self_attn.out_proj.log_alpha"]
    assert log_alpha.tolist() == pytest.approx([1.5] * 4, rel=1e-4)


def test_log_alpha_keeps_its_meaning_at_another_scale():
    first, second = gated(gate_lr_scale=10.0), gated(gate_lr_scale=50.0)
    set_gates(first, [-3.0, 0.0, 1.0, 2.0])
    second.load_state_dict(first.state_dict())
    loaded = gates(second)["cross", 1]
    assert torch.allclose(loaded.log_alpha, torch.tensor([-3.0, 0.0, 1.0, 2.0]), rtol=1e-4)


def trained(model, optimizer, batch, updates) -> None:
    """Some updates as fairseq makes them: every update seeds its own noise."""
    criterion = L0Criterion(
        ToyTask(),
        L0CriterionConfig(sentence_avg=False, label_smoothing=0.1, l0_lambda=0.1, target_heads=12),
    )
    target = torch.tensor([[11, 12, 13, 2], [14, 2, 1, 1]])
    model.train()
    for update in updates:
        torch.manual_seed(update)
        model.set_num_updates(update)
        optimizer.zero_grad()
        criterion(model, {"net_input": batch, "target": target, "ntokens": 6})[0].backward()
        optimizer.step()


@pytest.mark.parametrize("scale", [100.0, 1024.0])
def test_a_resumed_training_goes_on_bit_by_bit(batch, scale):
    whole, first, second = (gated(gate_lr_scale=scale) for _ in range(3))
    build = partial(torch.optim.Adam, lr=2e-3, weight_decay=1e-4)
    trained(whole, build(whole.parameters()), batch, range(20))
    optimizer = build(first.parameters())
    trained(first, optimizer, batch, range(10))
    file = io.BytesIO()
    torch.save([first.state_dict(), optimizer.state_dict()], file)
    file.seek(0)
    state, optimizer_state = torch.load(file)
    optimizer = build(second.parameters())
    second.load_state_dict(state)
    optimizer.load_state_dict(optimizer_state)
    trained(second, optimizer, batch, range(10, 20))
    resumed, expected = second.state_dict(), without_leftovers(whole.state_dict())
    assert [key for key in expected if not torch.equal(resumed[key], expected[key])] == []


@pytest.mark.parametrize("scale", [3.0, 7.7, 100.0, 1000.0])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_saving_and_loading_changes_no_bit(scale, dtype):
    torch.manual_seed(0)
    build = partial(GatedProjection, initial=0.0, lr_scale=scale, close_rule="value")
    first, second = (build(torch.nn.Linear(4, 4), 1000).to(dtype) for _ in range(2))
    first.scaled_log_alpha.data.normal_()
    second.load_state_dict(first.state_dict())
    assert torch.equal(first.scaled_log_alpha, second.scaled_log_alpha)


def gate_step(optimizer, scale: float, initial: float = 0.0) -> float:
    """How far log α goes in the first step."""
    projection = GatedProjection(
        torch.nn.Linear(4, 4), 2, initial=initial, lr_scale=scale, close_rule="value"
    )
    training = optimizer(projection.parameters(), lr=1e-3)
    projection.open_probabilities().sum().backward()
    training.step()
    return projection.log_alpha[0].item() - initial


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_learning_rate_of_gates_is_scaled(optimizer):
    assert gate_step(optimizer, 50.0) == pytest.approx(50 * gate_step(optimizer, 1.0), rel=1e-3)
    assert gate_step(optimizer, 1.0) < 0


def test_freezing_spares_what_both_sides_share():
    model = build_model(
        "transformer_normalign", gate_heads="encoder", freeze="decoder", share_all_embeddings=True
    )
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert "encoder.embed_tokens.weight" in trained
    assert "encoder.layers.0.self_attn.out_proj.scaled_log_alpha" in trained
    assert not any(name.startswith("decoder.layers") for name in trained)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gate_heads": "selfish"}, "unknown attention 'selfish'"),
        ({"quant_noise_pq": 0.1, "quant_noise_pq_block_size": 4}, "quantization"),
        ({"freeze": "decoder"}, "--freeze decoder: gates of cross, decoder would never close"),
        ({"gate_lr_scale": 0}, "--gate-lr-scale 0: must be above 0"),
    ],
)
def test_what_cannot_be_gated(options, message):
    with pytest.raises(InputError, match=message):
        build_model("transformer_normalign", **{"gate_heads": "all", **options})


class TestSteering:
    def test_one_step_for_each_update(self):
        steering = Steering()
        steering.set_num_updates(5)
        steering.steer(excess=3)
        steering.steer(excess=3)
        assert steering.factor == pytest.approx(Steering.RATE)
        steering.set_num_updates(6)
        steering.steer(excess=-1)
        assert steering.factor == pytest.approx(1)

    def test_survives_half_precision_and_saving(self):
        model = gated()
        for update in range(100):
            model.set_num_updates(update)
            model.steering.steer(excess=1)
        other = gated().half()
        other.load_state_dict(model.half().state_dict())
        assert other.steering.factor == pytest.approx(Steering.RATE**100, rel=1e-6)
