"""Soft alignments by gradients: how much a prediction moves with each source token's embedding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from fairseq_normalign.attention.recorder import evaluation_mode
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import FairseqModule, single_beam
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing

NOISE = 0.15  # of SmoothGrad, as a share of the range of embeddings (Ding et al., 2019)
ROWS = 8  # predictions whose gradients are computed at once
FEW_TOKENS = 256  # of a group of pairs: with fewer, calls cost more than what they compute


def input_products(embeddings: Tensor, gradients: Tensor) -> Tensor:
    """max(0, g) with g = ⟨E(x_s), ∂ log p(y_t)/∂E(x_s)⟩, (R, B, S).

    g is the gradient by a factor of the token's embedding, before positions are added (Ding et
    al., 2019). It is the same whether the embedding is taken before or after it is scaled.

    Args:
        embeddings: (B, S, C).
        gradients: of R predictions, (R, B, S, C).
    """
    return (embeddings.float() * gradients.float()).sum(-1).relu()


def mean_magnitudes(embeddings: Tensor, gradients: Tensor) -> Tensor:
    """mean_c |∂ log p(y_t)/∂E(x_s)_c| (Li et al., 2016); arguments as above."""
    return gradients.float().abs().mean(-1)


SCORES = {"products": input_products, "magnitudes": mean_magnitudes}


def shares(scores: Tensor) -> Tensor:
    """Each number as a share of its row; a row of zeros stays zero."""
    totals = scores.sum(-1, keepdim=True)
    return torch.where(totals > 0, scores / totals, 0)


def gradient_shares(
    forcing: TeacherForcing, pairs: list[Pair], score: str, samples: int = 0
) -> np.ndarray:
    """ψ(t, s): scores as shares of their rows, (B, T, S), padded on the right.

    With samples it is SmoothGrad: ψ averaged over gradients at noisy embeddings E' = E + N(0, σ²)
    (Ding et al., 2019). The noise is drawn by the tokens of the source: a sentence has the same one
    in every batch and every run, and the first n samples of many are those of n.

    Differs from the paper: σ is 0.15 (max − min) of the sentence's own embeddings, not of those of
    the batch.

    Args:
        score: a name in ``SCORES``.
        samples: of noise, 30 in the paper; without any, embeddings are as they are.
    """
    forcing.check_lengths(pairs)
    queries = max(len(pair.target.tokens) for pair in pairs)
    keys = max(len(pair.source.tokens) for pair in pairs)
    matrices = np.zeros((len(pairs), queries, keys), dtype=np.float32)
    size = _group_size(pairs)
    for first in range(0, len(pairs), size):
        group = pairs[first : first + size]
        clean = source_embeddings(forcing, group)
        noises = _noises(group, clean, samples) if samples else [torch.zeros_like(clean)]
        total = torch.zeros(())
        for noise in noises:
            scores = gradient_scores(forcing, group, clean + noise, partial(SCORES[score], clean))
            total = total + shares(scores)
        mean = total / max(1, samples)
        _, rows, columns = mean.shape
        matrices[first : first + size, :rows, :columns] = mean.cpu().numpy()
    return matrices


def _group_size(pairs: list[Pair]) -> int:
    """How many pairs share a backward pass.

    It is for several predictions, and there are as many pairs less in it: it holds about as many
    vectors of gradients as the batch has tokens. Very few pairs would not be worth the calls.
    """
    longest = max(pair.length for pair in pairs)
    return max(-(-len(pairs) // ROWS), FEW_TOKENS // longest, 1)


def _noises(pairs: list[Pair], embeddings: Tensor, samples: int) -> Iterator[Tensor]:
    """Noise for embeddings (B, S, C), one sample after the other; padding has none."""
    generators = [np.random.default_rng(pair.source.tokens.tolist()) for pair in pairs]
    for _ in range(samples):
        noise = torch.zeros_like(embeddings)
        for place, (pair, generator) in enumerate(zip(pairs, generators, strict=True)):
            of_sentence = embeddings[place, : len(pair.source.tokens)]  # (S, C)
            normal = torch.from_numpy(generator.standard_normal(of_sentence.shape))
            width = NOISE * (of_sentence.max() - of_sentence.min())  # σ
            noise[place, : len(of_sentence)] = width * normal.to(noise)
        yield noise


def source_embeddings(forcing: TeacherForcing, pairs: Sequence[Pair]) -> Tensor:
    """E(x), (B, S, C): as the table of embeddings has them, without scale and positions."""
    src_tokens, _, _ = forcing.tensors(pairs)
    with torch.no_grad():
        return forcing.model.encoder.embed_tokens(src_tokens)


def gradient_scores(
    forcing: TeacherForcing,
    pairs: Sequence[Pair],
    embeddings: Tensor,
    score: Callable[[Tensor], Tensor],
) -> Tensor:
    """A number for each prediction t and source token s, from ∂ log p(y_t | y_<t, x) / ∂e_s.

    The gradients of all pairs of a batch, and of a few predictions, come out of one backward
    pass. The output layer is passed once for all predictions: log p(y_t) depends on the decoder's
    state t alone, and that state on no later one, so that later ones are left out. Parameters get
    no gradients, whether they are frozen or not.

    Args:
        embeddings: what the encoder reads in the place of E(x), (B, S, C).
        score: gradients (R, B, S, C) of some predictions → their numbers (R, B, S).

    Returns:
        (B, T, S); predictions behind the end of their sentence have gradients of zeros.
    """
    model = forcing.model
    if getattr(model.decoder, "adaptive_softmax", None) is not None:  # it overwrites its inputs
        raise InputError(
            f"{type(model).__name__} was built with --adaptive-softmax-cutoff, which gradients do "
            "not pass"
        )
    src_tokens, prev_output_tokens, targets = forcing.tensors(pairs)
    src_lengths = src_tokens.ne(forcing.pad).sum(1)
    read = embeddings.detach().clone().requires_grad_()
    # The decoder may share the table of embeddings: it is its own again after the encoder.
    table = model.encoder.embed_tokens
    scores = []
    with evaluation_mode(model), _kept_states(model), single_beam(model), torch.enable_grad():
        with table.register_forward_hook(lambda module, args, output: read):
            encoder_out = model.encoder(src_tokens, src_lengths=src_lengths)
        for first in range(0, targets.shape[1], ROWS):
            prefix = prev_output_tokens[:, : first + ROWS]
            features, _ = model.decoder.extract_features(prefix, encoder_out=encoder_out)
            states = features[:, first:]  # (B, R, C)
            predicted = targets[:, first : first + ROWS]
            starts = _output_gradients(model, states, predicted, forcing.pad)
            # For each prediction the start of its gradient alone, (R, B, R, C)
            apart = torch.diag_embed(starts.permute(0, 2, 1)).permute(3, 0, 2, 1)
            (gradients,) = torch.autograd.grad(
                states, read, apart, retain_graph=True, is_grads_batched=True
            )  # (R, B, S, C)
            scores.append(score(gradients.detach()))
    return torch.cat(scores).transpose(0, 1)


def _output_gradients(model: FairseqModule, states: Tensor, targets: Tensor, pad: int) -> Tensor:
    """∂ log p(y_t) / ∂ state t, (B, R, C); 0 where y_t is padding."""
    states = states.detach().requires_grad_()
    output = model.decoder.output_layer(states)
    log_probs = model.get_normalized_probs((output, None), log_probs=True)
    of_targets = log_probs.gather(2, targets.unsqueeze(2)).squeeze(2)  # (B, R)
    total = of_targets.masked_fill(targets.eq(pad), 0).sum()
    return torch.autograd.grad(total, states)[0]


@contextmanager
def _kept_states(model: nn.Module) -> Iterator[None]:
    """Layers that keep what gradients need, also in models with ``--checkpoint-activations``.

    Such layers compute it again in a backward pass, which must then be one to all parameters.
    """
    wrapped: list[FairseqModule] = [
        module for module in model.modules() if hasattr(module, "precheckpoint_forward")
    ]
    forwards = [module.forward for module in wrapped]
    for module in wrapped:
        module.forward = module.precheckpoint_forward
    try:
        yield
    finally:
        for module, forward in zip(wrapped, forwards, strict=True):
            module.forward = forward
