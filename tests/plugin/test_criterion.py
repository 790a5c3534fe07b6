import pytest
import torch

from fairseq_normalign.errors import InputError
from fairseq_normalign.plugin.criterion import L0Criterion, L0CriterionConfig
from fairseq_normalign.plugin.gating import gates
from tests.conftest import ToyTask, build_model


def build(sentence_avg: bool = False, **options) -> L0Criterion:
    return L0Criterion(
        ToyTask(), L0CriterionConfig(sentence_avg=sentence_avg, label_smoothing=0.1, **options)
    )


@pytest.fixture
def sample(batch) -> dict:
    target = torch.tensor([[11, 12, 13, 2], [14, 2, 1, 1]])
    return {"net_input": batch, "target": target, "ntokens": 6}


def test_penalty_is_lambda_times_expected_open_heads():
    model = build_model("transformer_normalign", gate_heads="all", gate_init=0.0)
    penalty, state = build(l0_lambda=0.1).penalty(model)
    assert penalty.item() == pytest.approx(0.1 * 24 * 0.6881, abs=1e-3)
    assert state["open_encoder"] == pytest.approx(8 * 0.6881, abs=1e-3)
    assert state["closed_heads"] == 0


@pytest.mark.parametrize("sentence_avg", [False, True])
def test_loss_rises_by_the_penalty_per_sample(sample, sentence_avg):
    """Per token, whatever the trainer divides by, so that it does not depend on the batch."""
    model = build_model(
        "transformer_normalign", gate_heads="all", gate_init=9.0, dropout=0.0
    ).train()
    with_l0, size, _ = build(sentence_avg, l0_lambda=0.5)(model, sample)
    without, _, _ = build(sentence_avg, l0_lambda=0.0)(model, sample)
    assert size == (2 if sentence_avg else 6)
    assert ((with_l0 - without) / 6).item() == pytest.approx(0.5 * 24, rel=1e-3)
    _, _, log = build(l0_lambda=0.5)(model.eval(), sample)
    assert log["loss"].item() == pytest.approx(
        build(l0_lambda=0.0)(model, sample)[2]["loss"].item(), rel=1e-4
    )


def test_lambda_warms_up():
    model = build_model("transformer_normalign", gate_heads="encoder", gate_init=0.0)
    criterion = build(l0_lambda=0.1, l0_warmup_updates=100)
    lambdas = []
    for update in (0, 50, 100, 500):
        model.set_num_updates(update)
        lambdas.append(criterion.penalty(model)[1]["lambda_encoder"])
    assert lambdas == pytest.approx([0, 0.05, 0.1, 0.1])


def test_target_steers_until_enough_are_closed():
    """Gates alone, without translation loss: the penalty must stop where the target is reached."""
    model = build_model("transformer_normalign", gate_heads="all", gate_init=0.0).train()
    criterion = build(target_heads=20, l0_warmup_updates=50)
    worth = {name: torch.linspace(0, 0.02, 4) + 0.01 * name[1] for name in gates(model)}
    optimizer = torch.optim.Adam(
        [projection.scaled_log_alpha for projection in gates(model).values()], lr=1e-3
    )
    for update in range(900):
        model.set_num_updates(update)
        penalty, state = criterion.penalty(model)
        gain = sum(
            (worth[name] * gate.open_probabilities()).sum() for name, gate in gates(model).items()
        )
        optimizer.zero_grad()
        (penalty - gain).backward()
        optimizer.step()
    assert 24 - state["closed_heads"] in (20, 21)
    closed = [(gate.gate_values() == 0).tolist() for gate in gates(model).values()]
    assert any(row[0] for row in closed)  # the least worth went
    assert not any(row[3] for row in closed)


def test_gates_that_close_together_are_opened_again():
    """All alike, and fast, they close at once: as many as are wanted are then paid to open."""
    model = build_model("transformer_normalign", gate_heads="all", gate_lr_scale=400.0).train()
    criterion = build(target_heads=20, l0_lambda=2.0)
    optimizer = torch.optim.Adam(
        [projection.scaled_log_alpha for projection in gates(model).values()], lr=2e-3
    )
    seen = set()
    for update in range(100):
        model.set_num_updates(update)
        penalty, state = criterion.penalty(model)
        seen.add(state["closed_heads"])
        optimizer.zero_grad()
        penalty.backward()
        optimizer.step()
    assert 24 in seen
    assert state["closed_heads"] == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"l0_lambda_cross": -0.1}, "--l0-lambda-cross -0.1: must be 0 or more"),
        ({"l0_lambda": float("nan")}, "--l0-lambda nan: must be 0 or more"),
        ({"l0_warmup_updates": -1}, "--l0-warmup-updates and --log-relevance must be 0 or more"),
        ({"l0_lambda": 0, "target_heads": 3}, "--l0-lambda 0: .* above 0 with --target-heads"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError, match=message):
        build(**options)


def test_models_that_do_not_fit(sample):
    with pytest.raises(InputError, match="no gates: add --gate-heads"):
        build()(build_model("transformer_normalign"), sample)
    with pytest.raises(InputError, match="--target-heads 30: there are 24 gated heads"):
        build(target_heads=30)(build_model("transformer_normalign", gate_heads="all"), sample)
