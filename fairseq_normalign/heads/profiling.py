"""What is known of the heads of a model: scores and roles, measured over a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.attention_pass import running_heads, watch
from fairseq_normalign.heads.head_scores import (
    HEAD_SCORES,
    ProfileOptions,
    check_scores,
    default_scores,
)
from fairseq_normalign.heads.profile import Finding, Profile
from fairseq_normalign.host.attention_modules import head_counts, head_names
from fairseq_normalign.host.pairs import Pair, PairReader
from fairseq_normalign.host.teacher_forcing import Model, TeacherForcing
from fairseq_normalign.names import Head, all_heads
from fairseq_normalign.runs.sums import Sums


@dataclass(frozen=True)
class Survey:
    """What a score is measured on, and how."""

    forcing: TeacherForcing
    reader: PairReader
    pairs: Sequence[Pair]
    options: ProfileOptions
    sums: Sums = field(default_factory=Sums)  # kept nowhere


def profile(
    model: Model,
    pairs: Sequence[Pair],
    scores: Sequence[str] | None = None,
    options: ProfileOptions | None = None,
    *,
    sums: Sums | None = None,
    **changes: Any,
) -> Profile:
    """Scores and roles of every head of a model.

    Heads have the names that they had in the model that none was removed from.

    Examples:
        >>> profile(aligner, pairs, scores=["confidence", "relevance"]).scores["confidence"]

    Args:
        model: an aligner, or what else has ``forcing`` and ``reader``.
        pairs: sentence pairs as the reader reads them.
        scores: names in ``head_scores.HEAD_SCORES``; the cheap ones by default.
        options: see ``ProfileOptions``; or name them one by one.
        sums: where those of long passes are kept meanwhile; by default nowhere.
    """
    alone = model.forcing.attention == "encoder"
    names = default_scores(encoder_alone=alone) if scores is None else list(scores)
    check_scores(names, encoder_alone=alone)
    heads = all_heads(running_heads(model.forcing))
    if not heads:
        raise InputError("the model has no attention heads left")
    if not any(pair.source.text for pair in pairs):
        raise InputError("heads cannot be measured on a corpus without words")
    options = replace(options or ProfileOptions(), **changes)
    pairs, options = _without_skipped(pairs, options)
    survey = Survey(model.forcing, model.reader, pairs, options, sums or Sums())
    model_heads = all_heads(head_counts(model.forcing.model))
    first_names = dict(zip(model_heads, head_names(model.forcing.model), strict=True))
    names_of_heads = {head: first_names[head] for head in heads}
    signature = {"sentences": len(pairs)}
    measured = Profile(list(names_of_heads.values()), options=options, signature=signature)
    for name, finding in _findings(survey, names).items():
        measured.add(name, finding, names_of_heads)
    return measured


def _without_skipped(
    pairs: Sequence[Pair], options: ProfileOptions
) -> tuple[Sequence[Pair], ProfileOptions]:
    """The pairs, and the gold, without pairs that were skipped as too long."""
    if not any(pair.skipped for pair in pairs):
        return pairs, options
    if options.gold is not None:
        both = zip(pairs, options.gold, strict=True)
        options = replace(options, gold=[gold for pair, gold in both if not pair.skipped])
    return [pair for pair in pairs if not pair.skipped], options


def _findings(survey: Survey, names: Sequence[str]) -> dict[str, Finding]:
    """What each score says, those that only look at attention after one pass for all of them."""
    watchers = {}
    for name in names:
        if HEAD_SCORES[name].watches:
            watchers[name] = HEAD_SCORES[name].measure(survey)
    if watchers:
        watch(
            survey.forcing,
            survey.pairs,
            list(watchers.values()),
            max_tokens=survey.options.max_tokens,
            sums=survey.sums,
        )
    findings = {}
    for name, score in HEAD_SCORES.items():  # in the order of the table
        if name in names:
            measured = watchers[name].result() if score.watches else score.measure(survey)
            findings[name] = measured if isinstance(measured, Finding) else Finding(measured)
    return findings


def head_ranks(
    model: Model, pairs: Sequence[Pair], by: str, options: ProfileOptions | None = None
) -> dict[Head, float]:
    """A number for every head; the bigger, the more it is worth keeping."""
    check_scores([by])
    if not HEAD_SCORES[by].ranks:
        raise InputError(f"{by} does not tell which heads are worth keeping")
    measured = profile(model, pairs, [by], options)
    scores = measured.scores.get(by, {})
    if any(head not in scores for head in measured.heads):
        raise InputError("heads cannot be scored on a corpus without words on both sides")
    return {head: scores[head] for head in measured.heads}
