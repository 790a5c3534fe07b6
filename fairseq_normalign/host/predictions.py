"""How probable a model finds the tokens of a reference, in a way that gradients can follow."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def target_log_probs(model: Any, output: Any, target: Tensor) -> Tensor:
    """log p of each token of the target, (B, T).

    Args:
        output: of the model's forward pass.
        target: tokens, (B, T).
    """
    adaptive = getattr(model.decoder, "adaptive_softmax", None)
    if adaptive is not None:
        return _adaptive_log_probs(adaptive, output[0], target)
    log_probs = model.get_normalized_probs(output, log_probs=True, sample={"target": target})
    return _picked(log_probs, target)


def _adaptive_log_probs(softmax: Any, features: Tensor, target: Tensor) -> Tensor:
    """log p(token) = log p(its cluster) + log p(token | cluster), (B, T).

    fairseq's own function for all tokens changes in place what a gradient needs.
    """
    (head, *tails), (first, *seconds) = softmax(features, target)
    log_probs = _picked(head.log_softmax(-1), first)  # (B·T,)
    for number, (logits, second) in enumerate(zip(tails, seconds, strict=True)):
        if logits is not None:
            places = first.eq(softmax.cutoff[0] + number).nonzero().flatten()
            log_probs = log_probs.index_add(0, places, _picked(logits.log_softmax(-1), second))
    return log_probs.view_as(target)


def _picked(log_probs: Tensor, tokens: Tensor) -> Tensor:
    return log_probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
