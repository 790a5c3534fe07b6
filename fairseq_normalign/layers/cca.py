"""How alike two views of the same tokens are, whatever their bases: PWCCA (Morcos et al., 2018)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairseq_normalign.errors import InputError

VARIANCE = 0.999  # of a view that is kept
TOKENS_PER_NEURON = 10  # fewer make correlations of noise


class View(NamedTuple):
    """States X of N tokens, centred, as K orthonormal directions over the tokens: X = U S Vᵀ."""

    directions: Tensor  # U, (N, K)
    loadings: Tensor  # S Vᵀ = Uᵀ X, (K, C): how much of each neuron is in each direction


def view_of(states: Tensor) -> View:
    """The directions with the largest singular values that have 99.9 % of the variance together.

    Args:
        states: X, (N, C).
    """
    centred = states.double() - states.double().mean(0)
    u, s, vh = torch.linalg.svd(centred, full_matrices=False)
    variance = s.square().cumsum(0)
    if not variance[-1] > 0:
        raise InputError("all states of a layer are equal; there is nothing to compare")
    kept = int((variance < VARIANCE * variance[-1]).sum()) + 1
    return View(u[:, :kept], s[:kept, None] * vh[:kept])


def shuffled(view: View, rng: np.random.Generator) -> View:
    """The view with its tokens in another order: what has nothing to do with the others."""
    order = torch.from_numpy(rng.permutation(len(view.directions)))
    return view._replace(directions=view.directions[order])


def distance(first: View, second: View) -> float:
    """1 − Σ α_k ρ_k / Σ α_k, with the canonical correlations ρ and the weights α of PWCCA.

    The SVD of U_xᵀ U_y = A diag(ρ) Bᵀ gives ρ and the canonical variates h = U_x A; their weights
    are α_k = Σ_j |⟨h_k, x_j⟩| over the neurons x_j. The side with fewer directions gives the
    weights, the first one if both have as many.

    Differs from the authors' public code: its variates and weights depart from the definition.

    Args:
        first: of N tokens.
        second: of the same tokens in the same order.
    """
    x, y = first, second
    if y.directions.shape[1] < x.directions.shape[1]:
        x, y = y, x
    a, correlations, _ = torch.linalg.svd(x.directions.T @ y.directions, full_matrices=False)
    weights = (a.T @ x.loadings).abs().sum(1)  # α, (K,)
    similarity = (weights * correlations.clamp(max=1)).sum() / weights.sum()
    return float(1 - similarity)
