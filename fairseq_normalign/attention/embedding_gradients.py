"""Gradients of predictions by the source's token embeddings, several predictions at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from fairseq_normalign.attention.recorder import evaluation_mode
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import FairseqModule, single_beam
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing

ROWS = 8  # predictions whose gradients are computed at once


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
    _refuse(model)
    src_tokens, prev_output_tokens, targets = forcing.tensors(pairs)
    read = embeddings.detach().clone().requires_grad_()
    scores = []
    with evaluation_mode(model), _kept_states(model), single_beam(model), torch.enable_grad():
        encoder_out = _encoded(model, src_tokens, src_tokens.ne(forcing.pad).sum(1), read)
        for first in range(0, targets.shape[1], ROWS):
            prefix = prev_output_tokens[:, : first + ROWS]
            features, _ = model.decoder.extract_features(prefix, encoder_out=encoder_out)
            states = features[:, first:]  # (B, R, C)
            predicted = targets[:, first : first + ROWS]
            starts = _output_gradients(model, states, predicted, forcing.pad)
            (gradients,) = torch.autograd.grad(
                states, read, _apart(starts), retain_graph=True, is_grads_batched=True
            )  # (R, B, S, C)
            scores.append(score(gradients.detach()))
    return torch.cat(scores).transpose(0, 1)


def _refuse(model: FairseqModule) -> None:
    """Refuses an output layer that overwrites what its gradients need."""
    if getattr(model.decoder, "adaptive_softmax", None) is not None:
        raise InputError(
            f"{type(model).__name__} was built with --adaptive-softmax-cutoff, which gradients do "
            "not pass"
        )


def _encoded(
    model: FairseqModule, src_tokens: Tensor, src_lengths: Tensor, embeddings: Tensor
) -> dict[str, list[Tensor]]:
    """What the encoder returns when it reads these embeddings instead of its own.

    The decoder may share the table of embeddings: it is its own again afterwards.
    """
    table = model.encoder.embed_tokens
    handle = table.register_forward_hook(lambda module, args, output: embeddings)
    try:
        return model.encoder(src_tokens, src_lengths=src_lengths)
    finally:
        handle.remove()


def _output_gradients(model: FairseqModule, states: Tensor, targets: Tensor, pad: int) -> Tensor:
    """∂ log p(y_t) / ∂ state t, (B, R, C); 0 where y_t is padding."""
    states = states.detach().requires_grad_()
    output = model.decoder.output_layer(states)
    log_probs = model.get_normalized_probs((output, None), log_probs=True)
    of_targets = log_probs.gather(2, targets.unsqueeze(2)).squeeze(2)  # (B, R)
    total = of_targets.masked_fill(targets.eq(pad), 0).sum()
    return torch.autograd.grad(total, states)[0]


def _apart(starts: Tensor) -> Tensor:
    """(B, R, C) → (R, B, R, C): for each prediction the start of its gradient alone."""
    apart = torch.diag_embed(starts.permute(0, 2, 1))  # (B, C, R, R)
    return apart.permute(3, 0, 2, 1)


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
