"""The table of what can be measured of every head.

A new score is one class or function, in a file of its own, and one entry in :data:`HEAD_SCORES`;
``normalign heads``, ``normalign prune --by`` and ``analysis.profile.profile`` take what is in the
table. See CONTRIBUTING for a worked example.

This module imports no PyTorch: ``--help`` reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.late import late


class HeadScore(NamedTuple):
    """One thing that can be measured of every head.

    ``measure(survey)`` returns a ``heads.profile.Finding``, or just a number for each head. If it
    only looks at attention, it returns a watcher instead: an object that is called with what each
    attention did on each batch (``attention_pass.Seen``), and whose ``result()`` is the finding.
    All watchers share one pass over the corpus. What a long run keeps of a watcher are the
    attributes that its ``KEPT`` names.
    """

    measure: Callable[..., Any]
    summary: str
    watches: bool = False  # only looks at attention, in the shared pass
    ranks: bool = False  # the bigger it is, the more a head is worth keeping
    low: bool = False  # the smaller it is, the better: its correlations have the other sign
    encoder: bool = False  # can be measured on an encoder alone
    default: bool = False  # measured unless scores are named


# In the order of columns, and of measuring: beam search leaves attention set up for beams, so that
# BLEU comes last.
HEAD_SCORES: dict[str, HeadScore] = {
    "relevance": HeadScore(
        late("analysis.relevance_scores:relevance"),
        "LRP: share of its layer's relevance, mean over predictions (Voita et al., 2019)",
        ranks=True,
    ),
    "confidence": HeadScore(
        late("analysis.attention_scores:Confidence"),
        "mean of the largest weight (Voita et al., 2019)",
        watches=True,
        ranks=True,
        encoder=True,
        default=True,
    ),
    "entropy": HeadScore(
        late("analysis.attention_scores:Entropy"),
        "mean entropy of the weights, in nats; low is confident (Sennrich)",
        watches=True,
        low=True,
        encoder=True,
        default=True,
    ),
    "norm-confidence": HeadScore(
        late("analysis.attention_scores:NormConfidence"),
        "the same with ‖αf(x)‖ as shares of their row",
        watches=True,
        ranks=True,
        encoder=True,
        default=True,
    ),
    "norm": HeadScore(
        late("analysis.attention_scores:Norm"),
        "Σ_s ‖αf(x_s)‖, mean over queries",
        watches=True,
        ranks=True,
        encoder=True,
        default=True,
    ),
    "importance": HeadScore(
        late("analysis.loss_scores:importance"),
        "mean over sentences of |∂loss/∂ξ|, ξ a factor on the head, the loss summed over the "
        "sentence's tokens (Michel et al., 2019)",
        ranks=True,
        default=True,
    ),
    "ablation": HeadScore(
        late("analysis.loss_scores:loss_ablation"),
        "growth of the loss per target token with the head off",
        ranks=True,
    ),
    "gate": HeadScore(
        late("analysis.attention_scores:gates"),
        "the gate at test time, of a gated model",
        encoder=True,
        default=True,
    ),
    "AER": HeadScore(
        late("analysis.alignment_scores:error_rates"),
        "alignment error rate of the head alone, by the better step; needs gold",
        low=True,
    ),
    "positions": HeadScore(
        late("analysis.role_scores:PositionWatcher"),
        "role: relative position of the maxima",
        watches=True,
        encoder=True,
        default=True,
    ),
    "rare": HeadScore(
        late("analysis.role_scores:RareRole"),
        "role: maxima on the rarest tokens of the sentence",
        watches=True,
        encoder=True,
        default=True,
    ),
    "UAS": HeadScore(
        late("analysis.role_scores:syntax"),
        "syntactic roles, and attachment by the maximum spanning tree; needs a treebank",
        encoder=True,
    ),
    "BLEU": HeadScore(
        late("analysis.loss_scores:bleu_loss"),
        "loss of BLEU with the head off; slow",
        ranks=True,
    ),
}


def check_scores(names: list[str], *, encoder_alone: bool = False) -> None:
    """Refuses names that are not in the table, or that a lone encoder cannot have."""
    for name in names:
        if name not in HEAD_SCORES:
            expected = ", ".join(HEAD_SCORES)
            raise InputError(f"unknown score of heads {name!r}; expected one of: {expected}")
        if encoder_alone and not HEAD_SCORES[name].encoder:
            raise InputError(f"{name} needs the decoder, which is left out")


def default_scores(*, encoder_alone: bool = False) -> list[str]:
    """The scores that are measured unless others are named."""
    return [
        name
        for name, score in HEAD_SCORES.items()
        if score.default and (score.encoder or not encoder_alone)
    ]


def ranking_scores() -> list[str]:
    """The scores that tell which heads are worth keeping."""
    return [name for name, score in HEAD_SCORES.items() if score.ranks]
