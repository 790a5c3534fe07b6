"""Several soft alignments of a sentence pair → one.

Each evidence is a matrix (T, S) of shares: what a target word takes from each source word (or, for
a model of the other direction, transposed, what a source word takes from each target word).
Evidences that err independently agree where they are right, so their product, or a model fitted to
what most of them say, beats each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

FLOOR = 1e-4  # an evidence that sees nothing in a cell should not forbid it
RIDGE = 1e-4  # keeps the weights of heads that say the same finite
BLOCK = 20_000  # cells


def geometric_mean(
    shares: Sequence[np.ndarray], weights: Sequence[float] | None = None
) -> np.ndarray:
    """exp Σ_e w_e log p_e / Σ_e w_e: a product of experts.

    It is scaled so that more evidences do not sharpen it.
    """
    return np.exp(_mean(np.log(np.stack(shares) + FLOOR), weights))


def harmonic_mean(
    shares: Sequence[np.ndarray], weights: Sequence[float] | None = None
) -> np.ndarray:
    """Σ_e w_e / Σ_e (w_e / p_e): low as soon as one evidence is low."""
    return 1 / _mean(1 / (np.stack(shares) + FLOOR), weights)


def _mean(values: np.ndarray, weights: Sequence[float] | None) -> np.ndarray:
    """Weighted mean over the first axis; np.average refuses sentences without words."""
    shares = np.ones(len(values)) if weights is None else np.asarray(weights)
    return np.tensordot(shares / shares.sum(), values, axes=1)


def arithmetic_mean(
    shares: Sequence[np.ndarray], weights: Sequence[float] | None = None
) -> np.ndarray:
    """Σ_e w_e p_e / Σ_e w_e: high as soon as one evidence is high."""
    return _mean(np.stack(shares), weights)


MEANS: dict[str, Callable[..., np.ndarray]] = {
    "product": geometric_mean,
    "harmonic": harmonic_mean,
    "mean": arithmetic_mean,
}


class LinkModel(NamedTuple):
    """P(link) = σ(b + Σ_e w_e log p_e): a product of experts whose weights are learned."""

    weights: np.ndarray  # (E,)
    bias: float

    def __call__(self, shares: Sequence[np.ndarray]) -> np.ndarray:
        """The probability of a link in each cell, (T, S)."""
        logs = np.log(np.stack(shares) + FLOOR)  # (E, T, S)
        return _sigmoid(np.tensordot(self.weights, logs, axes=1) + self.bias)


def fit_links(
    shares: Sequence[Sequence[np.ndarray]], links: Sequence[np.ndarray], *, rounds: int = 25
) -> LinkModel:
    """The model under which the given links are most likely.

    Ridge logistic regression by Newton's method.

    Args:
        shares: the evidences of each sentence pair, E matrices (T, S).
        links: true where there is a link, (T, S) for each pair.
    """
    cells = sum(pair.size for pair in links)
    count = len(shares[0]) if shares else 0
    inputs = np.ones((cells, count + 1))  # log shares, and 1 for the bias
    truth = np.zeros(cells)
    start = 0
    for pair, linked in zip(shares, links, strict=True):
        end = start + linked.size
        by_cell = np.stack(pair).reshape(count, linked.size).T
        inputs[start:end, :-1] = np.log(by_cell + FLOOR)
        truth[start:end] = linked.ravel()
        start = end
    if not cells:
        return LinkModel(np.zeros(count), 0.0)
    center = inputs[:, :-1].mean(axis=0)
    scale = inputs[:, :-1].std(axis=0) + 1e-12
    inputs[:, :-1] -= center
    inputs[:, :-1] /= scale
    fitted = _newton(inputs, truth, rounds)
    weights, bias = fitted[:-1], fitted[-1]
    return LinkModel(weights / scale, float(bias - weights @ (center / scale)))


def _newton(inputs: np.ndarray, truth: np.ndarray, rounds: int) -> np.ndarray:
    """Weights of a logistic regression; the last one, the bias, is free of the ridge."""
    ridge = np.full(inputs.shape[1], RIDGE * len(inputs))
    ridge[-1] = 1e-9  # nearly: all cells may be alike
    weights = np.zeros(inputs.shape[1])
    for _ in range(rounds):
        gradient = -ridge * weights
        curvature = np.diag(ridge)
        for start in range(0, len(inputs), BLOCK):  # products of all cells at once are large
            block = inputs[start : start + BLOCK]
            probability = _sigmoid(block @ weights)
            variance = np.maximum(probability * (1 - probability), 1e-9)
            gradient += block.T @ (truth[start : start + BLOCK] - probability)
            curvature += (block.T * variance) @ block
        step = np.linalg.solve(curvature, gradient)
        weights += step
        if np.abs(step).max() < 1e-6:
            break
    return weights


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * x))  # does not overflow
