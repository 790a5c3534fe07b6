import math

import pytest
import torch

from fairseq_normalign.heads.gates import evaluation_gates, open_probabilities, sample_gates


@pytest.mark.parametrize(
    ("log_alpha", "probability", "gate"),
    [(-5, 0.0146, 0), (-1, 0.4480, 0.2227), (0, 0.6881, 0.5), (1, 0.8571, 0.7773), (3, 0.9779, 1)],
)
def test_published_values(log_alpha, probability, gate):
    """Of the authors' code (lib/layers/concrete_gate.py)."""
    log_alpha = torch.tensor([float(log_alpha)])
    assert open_probabilities(log_alpha).item() == pytest.approx(probability, abs=5e-5)
    assert evaluation_gates(log_alpha).item() == pytest.approx(gate, abs=5e-5)


def test_samples_are_open_as_often_as_the_formula_says():
    torch.manual_seed(0)
    log_alpha = torch.tensor([-3.0, -1.0, 0.0, 1.0, 3.0])
    gates = sample_gates(log_alpha, torch.rand(100_000, 5))
    assert torch.allclose((gates > 0).float().mean(0), open_probabilities(log_alpha), atol=0.006)
    # P(g = 1) mirrors P(g = 0)
    assert torch.allclose(
        (gates == 1).float().mean(0), 1 - open_probabilities(-log_alpha), atol=0.006
    )
    assert ((gates >= 0) & (gates <= 1)).all()


def slow_sample(log_alpha: float, uniform: float) -> float:
    share = 1 / (1 + math.exp(-(math.log(uniform) - math.log(1 - uniform) + log_alpha) / 0.33))
    return min(1.0, max(0.0, share * 1.2 - 0.1))


def test_sample_against_its_formula():
    for log_alpha in (-2.0, 0.3, 2.5):
        for uniform in (0.01, 0.4, 0.5, 0.77, 0.99):
            gate = sample_gates(torch.tensor([log_alpha]), torch.tensor([uniform]))
            assert gate.item() == pytest.approx(slow_sample(log_alpha, uniform), abs=1e-5)


def test_samples_stay_finite_at_the_ends():
    assert sample_gates(torch.zeros(2), torch.tensor([0.0, 1.0])).tolist() == [0, 1]


def test_gradient_passes_through_the_sample():
    log_alpha = torch.zeros(1, requires_grad=True)
    sample_gates(log_alpha, torch.tensor([0.5])).sum().backward()
    assert log_alpha.grad.item() == pytest.approx(0.25 / 0.33 * 1.2, rel=1e-4)


def test_paper_rule_closes_what_is_more_often_0_than_1():
    log_alpha = torch.linspace(-4, 4, 80)
    closed = evaluation_gates(log_alpha, "paper") == 0
    zero, one = 1 - open_probabilities(log_alpha), 1 - open_probabilities(-log_alpha)
    assert (closed == (zero > one)).all()
    assert torch.equal(
        evaluation_gates(log_alpha, "paper")[~closed], evaluation_gates(log_alpha)[~closed]
    )
