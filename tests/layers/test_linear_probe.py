import math

import pytest
import torch

from fairseq_normalign.layers.linear_probe import L2, objective, train


@pytest.fixture
def labelled():
    """States whose class is half known from one of their neurons."""
    random = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (300,), generator=random)
    states = torch.randn(300, 5, generator=random)
    states[:, 1] += labels
    return 10 * states + 3, labels


def slow_objective(probe, states, labels):
    total = 0.0
    for state, label in zip(states.double(), labels.tolist(), strict=True):
        logits = []
        for k in range(3):
            logit = float(probe.bias[k])
            for c in range(5):
                unit = (state[c] - probe.mean[c].double()) / probe.deviation[c].double()
                logit += float(unit * probe.weight[c, k])
            logits.append(logit)
        total += math.log(sum(map(math.exp, logits))) - logits[label]
    squares = sum(float(weight) ** 2 for weight in probe.weight.flatten())
    return total / len(labels) + L2 / 2 * squares


def test_the_objective_is_what_is_written(labelled):
    states, labels = labelled
    probe = train(states, labels, 3)
    expected = slow_objective(probe, states, labels)
    assert float(objective(probe, states, labels)) == pytest.approx(expected, rel=1e-4)


def test_no_step_in_any_direction_makes_it_smaller(labelled):
    states, labels = labelled
    probe = train(states, labels, 3)
    lowest = float(objective(probe, states, labels))
    random = torch.Generator().manual_seed(1)
    for _ in range(20):
        step = 0.1 * torch.randn(5, 3, generator=random)
        for sign in (1, -1):
            moved = probe._replace(weight=probe.weight + sign * step)
            assert float(objective(moved, states, labels)) > lowest - 1e-5


def test_classes_that_lie_apart_are_read_without_error():
    labels = torch.arange(3).repeat(20)
    states = torch.eye(3)[labels] + 0.01 * torch.randn(60, 3)
    assert train(states, labels, 3).accuracy(states, labels) == 1


def test_training_twice_gives_the_same(labelled):
    first, second = (train(*labelled, 3) for _ in range(2))
    torch.testing.assert_close(first.weight, second.weight, rtol=0, atol=0)


def test_noise_tells_nothing():
    random = torch.Generator().manual_seed(0)
    states = torch.randn(2000, 4, generator=random)
    labels = torch.randint(4, (2000,), generator=random)
    probe = train(states[:1000], labels[:1000], 4)
    assert probe.accuracy(states[1000:], labels[1000:]) == pytest.approx(0.25, abs=0.05)


def test_a_neuron_that_never_changes_is_no_trouble(labelled):
    states, labels = labelled
    states[:, 0] = 7
    assert train(states, labels, 3).logits(states).isfinite().all()
