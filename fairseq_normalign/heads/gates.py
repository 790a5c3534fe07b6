"""Hard-concrete gates on attention heads (Louizos et al., 2018; Voita et al., 2019).

A gate is a random number g in [0, 1] that is exactly 0 or exactly 1 with positive probability. Its
one parameter log α says how far it is open; the expected number of open gates is a differentiable
function of all of them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fairseq_normalign.heads.head_scores import CLOSE_RULES as CLOSE_RULES

TEMPERATURE = 0.33
LOW, HIGH = -0.1, 1.1  # what (0, 1) is stretched to, before it is cut to [0, 1]
EPSILON = 1e-6


def _stretched(share: Tensor) -> Tensor:
    return (share * (HIGH - LOW) + LOW).clamp(0, 1)


def sample_gates(log_alpha: Tensor, uniform: Tensor) -> Tensor:
    """g = clip(s·(h − l) + l, 0, 1) with s = σ((log U − log(1 − U) + log α) / τ).

    U is uniform on (0, 1).
    """
    uniform = uniform.clamp(EPSILON, 1 - EPSILON)
    return _stretched(torch.sigmoid((torch.logit(uniform) + log_alpha) / TEMPERATURE))


def evaluation_gates(log_alpha: Tensor, rule: str = "value") -> Tensor:
    """g = clip(σ(log α)·(h − l) + l, 0, 1): no noise, no temperature.

    A gate may stay between 0 and 1.

    Rule ``value`` takes this as it is: 0 from log α ≤ −2.398. Rule ``paper`` also closes a gate
    that is more often 0 than 1 in training, P(g = 0) > P(g = 1), which is log α < 0.
    """
    gates = _stretched(torch.sigmoid(log_alpha))
    return gates * (log_alpha >= 0) if rule == "paper" else gates


def open_probabilities(log_alpha: Tensor) -> Tensor:
    """P(g ≠ 0) = σ(log α − τ log(−l / h))."""
    return torch.sigmoid(log_alpha - TEMPERATURE * math.log(-LOW / HIGH))
