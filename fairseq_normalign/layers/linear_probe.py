"""What a linear classifier reads from states."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

L2 = 1e-3
STEPS = 100  # of L-BFGS, at most: enough, as the loss is convex


class Probe(NamedTuple):
    """Logits of K classes: (x − mean) / deviation · W + b."""

    mean: Tensor  # (C,)
    deviation: Tensor  # (C,)
    weight: Tensor  # W, (C, K)
    bias: Tensor  # b, (K,)

    def logits(self, states: Tensor) -> Tensor:
        """(N, C) → (N, K)."""
        return (states - self.mean) / self.deviation @ self.weight + self.bias

    def accuracy(self, states: Tensor, labels: Tensor) -> float:
        """The share of states whose class is the one with the largest logit."""
        return float((self.logits(states).argmax(1) == labels).float().mean())


def train(states: Tensor, labels: Tensor, classes: int) -> Probe:
    """Softmax regression on standardised states: mean cross-entropy + L2/2 · ‖W‖².

    From zero by L-BFGS, so that nothing is drawn at random.

    Args:
        states: (N, C).
        labels: (N,), integers below ``classes``.
    """
    mean = states.mean(0)
    deviation = states.std(0).clamp(min=1e-6)
    weight = torch.zeros(states.shape[1], classes, requires_grad=True)
    bias = torch.zeros(classes, requires_grad=True)
    probe = Probe(mean, deviation, weight, bias)
    optimizer = torch.optim.LBFGS(
        [weight, bias], max_iter=STEPS, line_search_fn="strong_wolfe", tolerance_grad=1e-6
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = objective(probe, states, labels)
        loss.backward()
        return loss

    optimizer.step(closure)
    return probe._replace(weight=weight.detach(), bias=bias.detach())


def objective(probe: Probe, states: Tensor, labels: Tensor) -> Tensor:
    """What training makes small."""
    errors = torch.nn.functional.cross_entropy(probe.logits(states), labels)
    return errors + L2 / 2 * probe.weight.square().sum()
