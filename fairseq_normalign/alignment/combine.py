"""Several soft alignments of a sentence pair → one.

Each evidence is a matrix (T, S) of shares: what a target word takes from each source word (or, for
a model of the other direction, transposed, what a source word takes from each target word).
Evidences that err independently agree where they are right, so their product, or a model fitted to
what most of them say, beats each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import Link

Shares = np.ndarray | Sequence[np.ndarray]  # of all evidences, (E, T, S)

FLOOR = 1e-4  # an evidence that sees nothing in a cell should not forbid it
RIDGE = 1e-4  # keeps the weights of heads that say the same finite
BLOCK = 20_000  # cells
ROUNDS = 25  # of Newton's method, at most


def as_matrix(links: Iterable[Link], shape: tuple[int, ...]) -> np.ndarray:
    """True where there is a link, (T, S)."""
    matrix = np.zeros(shape, dtype=bool)
    for source, target in links:
        matrix[target, source] = True
    return matrix


def link_matrix(links: Iterable[Link], shape: tuple[int, int], where: str) -> np.ndarray:
    """1 where there is a link of a file; refuses links of words that are not there."""
    links = list(links)
    for source, target in links:
        if not (0 <= source < shape[1] and 0 <= target < shape[0]):
            raise InputError(
                f"{where}: link {source}-{target} where there are {shape[1]} source and {shape[0]} "
                "target words; expected links of the same pairs, source word first, counted from 0"
            )
    return as_matrix(links, shape).astype(np.float32)


def geometric_mean(shares: Shares, weights: Sequence[float] | None = None) -> np.ndarray:
    """exp Σ_e w_e log p_e / Σ_e w_e: a product of experts.

    It is scaled so that more evidences do not sharpen it.
    """
    return _where_heard(shares, np.exp(_mean(log_shares(shares), weights)))


def harmonic_mean(shares: Shares, weights: Sequence[float] | None = None) -> np.ndarray:
    """Σ_e w_e / Σ_e (w_e / p_e): low as soon as one evidence is low."""
    return _where_heard(shares, 1 / _mean(1 / (np.asarray(shares) + FLOOR), weights))


def _where_heard(shares: Shares, mean: np.ndarray) -> np.ndarray:
    """The mean, and 0 where no evidence sees anything."""
    return np.where(np.asarray(shares).any(axis=0), mean, 0)


def _mean(values: np.ndarray, weights: Sequence[float] | None) -> np.ndarray:
    """Weighted mean over the first axis; np.average refuses sentences without words."""
    shares = np.ones(len(values)) if weights is None else np.asarray(weights)
    return np.tensordot(shares / shares.sum(), values, axes=1)


def arithmetic_mean(shares: Shares, weights: Sequence[float] | None = None) -> np.ndarray:
    """Σ_e w_e p_e / Σ_e w_e: high as soon as one evidence is high."""
    return _mean(np.asarray(shares), weights)


MEANS: dict[str, Callable[..., np.ndarray]] = {
    "product": geometric_mean,
    "harmonic": harmonic_mean,
    "mean": arithmetic_mean,
}


class LinkModel(NamedTuple):
    """log P(link) / P(no link) = b + Σ_e w_e log p_e: a product of experts, weights learned."""

    weights: np.ndarray  # (E,)
    bias: float

    def log_odds(self, shares: Shares) -> np.ndarray:
        """Of a link in each cell, (T, S)."""
        return np.tensordot(self.weights, log_shares(shares), axes=1) + self.bias


def log_shares(shares: Shares) -> np.ndarray:
    """log p_e, (E, T, S)."""
    return np.log(np.asarray(shares) + FLOOR)


def fit_links(shares: Sequence[Sequence[np.ndarray]], links: Sequence[np.ndarray]) -> LinkModel:
    """The model under which the given links are most likely.

    Args:
        shares: the evidences of each sentence pair, E matrices (T, S).
        links: true where there is a link, (T, S) for each pair.
    """
    size = len(shares[0]) if shares else 0
    return fit_inputs(map(log_shares, shares), links, size)


def fit_inputs(inputs: Iterable[np.ndarray], links: Sequence[np.ndarray], size: int) -> LinkModel:
    """The same of any ``size`` inputs, (E, T, S) for each pair: ridge logistic regression."""
    cells = sum(pair.size for pair in links)
    if not cells:
        return LinkModel(np.zeros(size), 0.0)
    truth = np.concatenate([pair.ravel() for pair in links]).astype(float)
    matrix = np.ones((cells, size + 1))  # inputs, and 1 for the bias
    start = 0
    for pair, linked in zip(inputs, links, strict=True):  # one by one: all at once are large
        end = start + linked.size
        matrix[start:end, :-1] = pair.reshape(size, linked.size).T
        start = end
    center = matrix[:, :-1].mean(axis=0)
    scale = matrix[:, :-1].std(axis=0) + 1e-12
    matrix[:, :-1] -= center
    matrix[:, :-1] /= scale
    fitted = _newton(matrix, truth)
    weights, bias = fitted[:-1], fitted[-1]
    return LinkModel(weights / scale, float(bias - weights @ (center / scale)))


def _newton(inputs: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Weights of a logistic regression, by Newton; the last one, the bias, is free of the ridge."""
    ridge = np.full(inputs.shape[1], RIDGE * len(inputs))
    ridge[-1] = 1e-9  # nearly: all cells may be alike
    weights = np.zeros(inputs.shape[1])
    for _ in range(ROUNDS):
        gradient = -ridge * weights
        curvature = np.diag(ridge)
        for start in range(0, len(inputs), BLOCK):  # products of all cells at once are large
            block = inputs[start : start + BLOCK]
            probability = sigmoid(block @ weights)
            variance = np.maximum(probability * (1 - probability), 1e-9)
            gradient += block.T @ (truth[start : start + BLOCK] - probability)
            curvature += (block.T * variance) @ block
        step = np.linalg.solve(curvature, gradient)
        weights += step
        if np.abs(step).max() < 1e-6:
            break
    return weights


def two_softmaxes(log_odds: np.ndarray, null: float) -> np.ndarray:
    """How likely words take each other: the mean of both directions, (T, S).

    (r + c) / 2 with r = e^z / (e^b + Σ_s e^z), and c likewise over the target words.

    Args:
        log_odds: z of each cell, (T, S).
        null: b, the log odds of no link.
    """
    odds = np.exp(np.minimum(log_odds - null, 50))  # does not overflow
    of_row = odds / (1 + odds.sum(axis=1, keepdims=True))
    of_column = odds / (1 + odds.sum(axis=0, keepdims=True))
    return (of_row + of_column) / 2


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(−x))."""
    return 0.5 * (1 + np.tanh(0.5 * x))  # does not overflow
