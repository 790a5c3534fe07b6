"""Soft alignments by gradients: how much a prediction moves with each source token's embedding."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from fairseq_normalign.attention.embedding_gradients import (
    ROWS,
    gradient_scores,
    source_embeddings,
)
from fairseq_normalign.attention.methods import Batch
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing

NOISE = 0.15  # of SmoothGrad, as a share of the range of embeddings (Ding et al., 2019)
FEW_TOKENS = 256  # of a group of pairs: with fewer, calls cost more than what they compute


def grad_input(batch: Batch, layer: None = None, head: None = None) -> np.ndarray:
    """ψ(t, s) = max(0, g) / Σ_s max(0, g) with g = ⟨E(x_s), ∂ log p(y_t)/∂E(x_s)⟩, (B, T, S).

    g is the gradient by a factor of the token's embedding, before positions are added (Ding et
    al., 2019). It is the same whether the embedding is taken before or after it is scaled.
    """
    return _by_group(batch, _grad_inputs)


def saliency(batch: Batch, layer: None = None, head: None = None) -> np.ndarray:
    """mean_c |∂ log p(y_t)/∂E(x_s)_c| as a share of its row (Li et al., 2016), (B, T, S)."""
    return _by_group(batch, _saliencies)


def smoothgrad(batch: Batch, layer: None = None, head: None = None, *, samples: int) -> np.ndarray:
    """ψ of :func:`grad_input`, averaged over gradients at noisy embeddings, (B, T, S).

    g = ⟨E(x_s), ∂ log p(y_t)/∂E'(x_s)⟩ with E' = E + N(0, σ²); ψ is taken of each sample (Ding et
    al., 2019). The noise is drawn by the tokens of the source: a sentence has the same one in
    every batch and every run, and the first n samples of many are those of n.

    Differs from the paper: σ is 0.15 (max − min) of the sentence's own embeddings, not of those of
    the batch.

    Args:
        samples: how many, 30 in the paper.
    """

    def of_group(forcing: TeacherForcing, pairs: list[Pair]) -> Tensor:
        return _smooth(forcing, pairs, samples)

    return _by_group(batch, of_group)


def _grad_inputs(forcing: TeacherForcing, pairs: list[Pair]) -> Tensor:
    clean = source_embeddings(forcing, pairs)
    return _products(forcing, pairs, clean, clean)


def _saliencies(forcing: TeacherForcing, pairs: list[Pair]) -> Tensor:
    clean = source_embeddings(forcing, pairs)
    return shares(gradient_scores(forcing, pairs, clean, mean_magnitudes))


def _smooth(forcing: TeacherForcing, pairs: list[Pair], samples: int) -> Tensor:
    clean = source_embeddings(forcing, pairs)
    noises = _noises(pairs, clean)
    total = torch.zeros(())
    for _ in range(samples):
        total = total + _products(forcing, pairs, clean, clean + next(noises))
    return total / samples


def _products(forcing: TeacherForcing, pairs: list[Pair], clean: Tensor, read: Tensor) -> Tensor:
    """ψ of the clean embeddings and the gradients at those that are read, (B, T, S)."""

    def score(gradients: Tensor) -> Tensor:
        return input_products(clean, gradients)

    return shares(gradient_scores(forcing, pairs, read, score).relu())


def input_products(embeddings: Tensor, gradients: Tensor) -> Tensor:
    """⟨E, ∂/∂E⟩: (B, S, C) and (R, B, S, C) → (R, B, S)."""
    return (embeddings.float() * gradients.float()).sum(-1)


def mean_magnitudes(gradients: Tensor) -> Tensor:
    """mean_c |∂/∂E_c|: (R, B, S, C) → (R, B, S)."""
    return gradients.float().abs().mean(-1)


def shares(scores: Tensor) -> Tensor:
    """Each number as a share of its row; a row of zeros stays zero."""
    totals = scores.sum(-1, keepdim=True)
    return torch.where(totals > 0, scores / totals, 0)


def _noises(pairs: list[Pair], embeddings: Tensor) -> Iterator[Tensor]:
    """Noise for embeddings (B, S, C), one sample after the other; padding has none."""
    generators = [np.random.default_rng(pair.source.tokens.tolist()) for pair in pairs]
    while True:
        noise = torch.zeros_like(embeddings)
        for place, (pair, generator) in enumerate(zip(pairs, generators, strict=True)):
            of_sentence = embeddings[place, : len(pair.source.tokens)]  # (S, C)
            normal = torch.from_numpy(generator.standard_normal(of_sentence.shape))
            width = noise_width(of_sentence)
            noise[place, : len(of_sentence)] = width * normal.to(noise)
        yield noise


def noise_width(embeddings: Tensor) -> Tensor:
    """σ = 0.15 (max − min) of a sentence's embeddings (S, C)."""
    return NOISE * (embeddings.max() - embeddings.min())


def _by_group(batch: Batch, of_group: Callable[[TeacherForcing, list[Pair]], Tensor]) -> np.ndarray:
    """The matrices of a batch, (B, T, S), from those of some pairs at a time."""
    pairs = batch.pairs
    batch.forcing.check_lengths(pairs)
    queries = max(len(pair.target.tokens) for pair in pairs)
    keys = max(len(pair.source.tokens) for pair in pairs)
    matrices = np.zeros((len(pairs), queries, keys), dtype=np.float32)
    size = _group_size(pairs)
    for first in range(0, len(pairs), size):
        group = pairs[first : first + size]
        of_pairs = of_group(batch.forcing, group).cpu().numpy()
        _, rows, columns = of_pairs.shape
        matrices[first : first + size, :rows, :columns] = of_pairs
    return matrices


def _group_size(pairs: list[Pair]) -> int:
    """How many pairs share a backward pass.

    It is for several predictions, and there are as many pairs less in it: it holds about as many
    vectors of gradients as the batch has tokens. Very few pairs would not be worth the calls.
    """
    longest = max(pair.length for pair in pairs)
    return max(-(-len(pairs) // ROWS), FEW_TOKENS // longest, 1)
