"""What is known of the heads of a model: scores and roles, measured over a corpus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.attention_pass import (
    Known,
    Seen,
    Tally,
    running_heads,
    seen_attentions,
)
from fairseq_normalign.heads.head_scores import (
    HEAD_SCORES,
    ProfileOptions,
    Roles,
    check_scores,
    default_scores,
    ranking_scores,
)
from fairseq_normalign.heads.profile import Finding, Profile
from fairseq_normalign.host.batches import numbered_batches
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.raw_corpus import PAIRS, ChunkReader
from fairseq_normalign.host.teacher_forcing import Model
from fairseq_normalign.names import Head
from fairseq_normalign.progress import bar
from fairseq_normalign.runs.chunks import Chunk, Partial
from fairseq_normalign.runs.engines import Progress
from fairseq_normalign.runs.measure import measure_here

Items = Sequence[Any]  # of a corpus: pairs, or trees
Pairs = Mapping[int, Pair]  # by line


class HeadMeasure:
    """A score of heads that runs the model in its own way, as a ``runs.measure.Measure``.

    ``add_batch`` adds to a tally what some pairs say (or ``add`` what a whole chunk says), and
    ``finding`` is what the tally of all pairs says; a tally knows the names of heads and what
    ``prepared`` has found out before.
    """

    score: str  # in the table
    name: str  # the same, unless there are several models
    pairs_per_chunk = 20
    first_pairs = 0
    tells_notes = False

    def __init__(self, options: ProfileOptions):
        self.options = options

    def items(self, models: ChunkReader, items: Items) -> Items:
        """What is measured of a corpus."""
        return items

    def pairs(self, models: ChunkReader, chunk: Chunk) -> tuple[Sequence[Pair], Known]:
        """The pairs of a chunk, and what is to be told of it."""
        return models.pairs(chunk)

    def prepare(self, models: ChunkReader, first: Chunk) -> dict[str, Any]:
        """The heads by the names that they had before any was removed, and what else is known."""
        heads = running_heads(models.forcing)
        if not heads:
            raise InputError("the model has no attention heads left")
        return {"heads": heads, **self.prepared(models, first)}

    def prepared(self, models: ChunkReader, first: Chunk) -> Known:
        """What is decided once, on the first pairs."""
        return {}

    def chunk(
        self, models: ChunkReader, chunk: Chunk, prepared: Known, progress: Progress
    ) -> Partial:
        pairs, notes = self.pairs(models, chunk)
        by_line = {line: pair for line, pair in enumerate(pairs, chunk.first) if pair.has_text}
        tally = Tally(prepared, {"pairs.sum": np.array([len(by_line)])})
        if by_line:
            self.add(tally, models, by_line)
        progress(len(pairs))
        return Partial(tally.arrays, notes=notes if self.tells_notes else {})

    def add(self, tally: Tally, models: ChunkReader, pairs: Pairs) -> None:
        """Adds what the pairs of a chunk say, which come by their lines."""
        for numbered in numbered_batches(pairs.values(), max_tokens=self.options.max_tokens):
            self.add_batch(tally, models, [pair for _, pair in numbered])

    def add_batch(self, tally: Tally, models: ChunkReader, batch: list[Pair]) -> None:
        """Adds what some pairs of similar length say, which are run together."""

    def finding(self, tally: Tally) -> Finding:
        """What all pairs say."""
        return Finding(tally.means(self.score))

    def finish(self, total: Partial, prepared: Known) -> dict[str, Finding]:
        """The findings of each score."""
        return {self.score: self.finding(Tally(prepared, total.arrays))}


class AttentionScore(HeadMeasure):
    """A score that only looks at attention: all of these share one pass over the corpus."""

    def rows(self, seen: Seen) -> Tensor | None:
        """What to add up for each head of an attention, (H, …); for a mean, a sum and its cases.

        ``attention_pass.summed`` makes such rows. None leaves the attention out.
        """
        raise NotImplementedError

    def add_seen(
        self, tally: Tally, models: ChunkReader, batch: list[Pair], attentions: Sequence[Seen]
    ) -> None:
        """Adds what all attentions did on a batch."""
        for seen in attentions:
            rows = self.rows(seen)
            if rows is not None:
                tally.add(self.score, seen.attention, rows)


class AttentionPass(HeadMeasure):
    """Which heads there are, and all scores that only look at attention, in one pass."""

    pairs_per_chunk = 200
    tells_notes = True

    def __init__(self, options: ProfileOptions, scores: Mapping[str, AttentionScore]):
        super().__init__(options)
        self.scores = scores

    @property
    def first_pairs(self) -> int:  # type: ignore[override]
        return max((score.first_pairs for score in self.scores.values()), default=0)

    def prepared(self, models: ChunkReader, first: Chunk) -> Known:
        known: dict[str, Any] = {}
        for score in self.scores.values():
            known |= score.prepared(models, first)
        return known

    def add(self, tally: Tally, models: ChunkReader, pairs: Pairs) -> None:
        tally.join("words.sum", [sum(len(pair.source.text) for pair in pairs.values())])
        if self.scores:
            super().add(tally, models, pairs)

    def add_batch(self, tally: Tally, models: ChunkReader, batch: list[Pair]) -> None:
        attentions = seen_attentions(models.forcing, batch)
        for score in self.scores.values():
            score.add_seen(tally, models, batch, attentions)

    def finish(self, total: Partial, prepared: Known) -> dict[str, Finding]:
        if not total.arrays.get("words.sum", 0):
            raise InputError("heads cannot be measured on a corpus without words")
        settings = {"sentences": int(total.arrays["pairs.sum"][0])}
        no_roles: dict[Head, Roles] = {head: [] for head in Tally(prepared).heads}
        findings = {"attention": Finding(settings=settings, roles=no_roles)}
        for score in self.scores.values():
            findings |= score.finish(total, prepared)
        return findings


def head_measures(
    scores: Sequence[str],
    options: ProfileOptions,
    *,
    encoder_alone: bool = False,
    number: int | None = None,
) -> list[HeadMeasure]:
    """What is to be measured for some scores.

    Args:
        number: of the model, if there are several.
    """
    check_scores(list(scores), encoder_alone=encoder_alone)
    watching: dict[str, AttentionScore] = {}
    measures: dict[str, HeadMeasure] = {"attention": AttentionPass(options, watching)}
    for name in HEAD_SCORES:
        if name in scores:
            measure = HEAD_SCORES[name].measure(options)
            group = watching if isinstance(measure, AttentionScore) else measures
            group[name] = measure
    for name, measure in {**watching, **measures}.items():
        measure.score = name
        measure.name = name if number is None else f"{name}-{number}"
    return list(measures.values())


def profile_of(findings: Mapping[str, Finding]) -> Profile:
    """All findings about one model together, in the order of the table."""
    ordered = {name: findings[name] for name in ("attention", *HEAD_SCORES) if name in findings}
    signature: dict[str, Any] = {}
    for finding in ordered.values():
        signature |= finding.settings
    return Profile(list(findings["attention"].roles), ordered, signature)


def profile(
    model: Model,
    pairs: Iterable[Pair],
    scores: Sequence[str] | None = None,
    options: ProfileOptions | None = None,
    **changes: Any,
) -> Profile:
    """Scores and roles of every head of a model.

    Heads have the names that they had in the model that none was removed from.

    Examples:
        >>> profile(aligner, pairs, scores=["confidence", "relevance"]).scores["confidence"]

    Args:
        model: an aligner, or another object with ``forcing`` and ``reader``.
        pairs: sentence pairs as the reader reads them.
        scores: names in ``head_scores.HEAD_SCORES``; the cheap ones by default.
        options: see ``ProfileOptions``; or name them one by one.
    """
    alone = model.forcing.attention == "encoder"
    names = default_scores(encoder_alone=alone) if scores is None else scores
    options = replace(options or ProfileOptions(), **changes)
    in_memory = ChunkReader([model], PAIRS)
    findings: dict[str, Finding] = {}
    held = list(pairs)
    for measure in head_measures(names, options, encoder_alone=alone):
        items = measure.items(in_memory, held)
        with bar(measure.name, total=len(items)) as shown:
            findings |= measure_here(measure, in_memory, items, shown.update)
    return profile_of(findings)


def head_ranks(
    model: Model, pairs: Sequence[Pair], by: str, options: ProfileOptions | None = None
) -> dict[Head, float]:
    """A number for every head; the bigger, the more it is worth keeping."""
    if by not in ranking_scores():
        expected = ", ".join(ranking_scores())
        raise InputError(f"cannot rank heads by {by}; choose one of: {expected}")
    measured = profile(model, pairs, [by], options)
    scores = measured.scores.get(by, {})
    if any(head not in scores for head in measured.heads):
        raise InputError("heads cannot be scored on a corpus without words on both sides")
    return {head: scores[head] for head in measured.heads}
