"""What is known of the heads of a model: scores and roles, measured over a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairseq_normalign.attention.soft import STEPS
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.attention_pass import running_heads, watch
from fairseq_normalign.heads.head_scores import HEAD_SCORES, check_scores, default_scores
from fairseq_normalign.heads.profile import Finding, Profile
from fairseq_normalign.host.attention_modules import head_counts, head_names
from fairseq_normalign.host.pairs import Pair, PairReader
from fairseq_normalign.host.teacher_forcing import Model, TeacherForcing
from fairseq_normalign.names import Head, all_heads
from fairseq_normalign.runs.sums import Sums
from fairseq_normalign.text.links import Gold, GoldFile
from fairseq_normalign.text.treebank import Tree


@dataclass(frozen=True)
class ProfileOptions:
    """How scores are measured; what belongs to a score that is not asked for plays no part.

    Args:
        confidence_eos: ``key``: </s> is no candidate for the maximum; ``both``: and as a query it
            does not count.
        rules: of LRP, perhaps with ε, as in ``epsilon:0.001``.
        pooled: explain all predictions of a sentence together instead of each alone: faster.
        ablation: how many pairs the loss is measured on with each head off.
        bleu: how many sentences are translated with each head off.
        tokenize: sacrebleu's tokeniser for BLEU.
        search: fairseq's options of beam search, where they are not to be the usual ones.
        gold: links of the first pairs, for AER; ``gold_file`` is where they are from.
        method: what AER is of: a method in ``methods.METHODS`` that each head has.
        extract: how links are taken for AER (see ``AlignOptions``).
        steps: which steps AER is measured at; the better one counts.
        counts: how often words or pieces are in the training data; by default the dictionary's own.
        rare_top: look only at sentences whose rarest token is not among so many most frequent: 0
            looks at all. By default as many as in the paper (``heads.criteria.RARE_TOP``), and a
            note if no sentence is left; refused if they are named.
        trees: a treebank of the source language; ``trees_name`` is its file.
        seed: of the control in which tokens change places.
        max_tokens: how many tokens, padding included, are run at once.
    """

    confidence_eos: str = "both"
    rules: str = "voita"
    pooled: bool = False
    ablation: int = 200
    bleu: int = 100
    tokenize: str = "13a"
    search: Mapping[str, Any] = field(default_factory=dict)
    gold: Sequence[Gold] | None = None
    gold_file: GoldFile | None = None
    method: str = "norms"
    extract: str = "argmax"
    steps: tuple[str, ...] = tuple(STEPS)
    counts: Mapping[str, float] | None = None
    counts_name: str = "the dictionary"
    rare_top: int | None = None
    trees: Sequence[Tree] = ()
    trees_name: str = "the treebank"
    seed: int = 1
    max_tokens: int = 4000


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
    measured = Profile(heads, signature={"sentences": len(pairs)})
    for name, finding in _findings(survey, names).items():
        measured.add(name, finding)
    model_heads = all_heads(head_counts(model.forcing.model))
    first_names = dict(zip(model_heads, head_names(model.forcing.model), strict=True))
    return measured.renamed(first_names)


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
