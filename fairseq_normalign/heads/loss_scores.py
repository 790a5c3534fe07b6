"""Scores of heads by what translation loses without them."""

from __future__ import annotations

from fairseq_normalign.heads import ablation
from fairseq_normalign.heads.importance import gradient_importance
from fairseq_normalign.heads.profile import Finding
from fairseq_normalign.heads.profiling import Survey
from fairseq_normalign.heads.translation import bleu_metric
from fairseq_normalign.host.translate import Translator
from fairseq_normalign.names import Head


def importance(survey: Survey) -> dict[Head, float]:
    """See ``importance.gradient_importance``."""
    max_tokens = survey.options.max_tokens
    return gradient_importance(
        survey.forcing, survey.pairs, max_tokens=max_tokens, sums=survey.sums
    )


def loss_ablation(survey: Survey) -> Finding:
    """See ``ablation.ablation``; on the first pairs only."""
    pairs = survey.pairs[: survey.options.ablation]
    max_tokens = survey.options.max_tokens
    scores = ablation.ablation(survey.forcing, pairs, max_tokens=max_tokens, sums=survey.sums)
    return Finding(scores, settings={"ablation": len(pairs)})


def bleu_loss(survey: Survey) -> Finding:
    """See ``ablation.bleu_ablation``; on the first sentences only.

    The model is made ready for beam search, and cannot be aligned any more.
    """
    options = survey.options
    translator = Translator(survey.forcing.model, survey.reader, options.search)
    bleu = bleu_metric(options.tokenize)
    pairs = survey.pairs[: options.bleu]
    scores = ablation.bleu_ablation(
        translator, pairs, bleu, max_tokens=options.max_tokens, sums=survey.sums
    )
    return Finding(scores, settings={"ablation-bleu": f"{len(pairs)}-{options.tokenize}"})
