"""What is known of the heads of a model: scores and roles, measured over a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.attention_pass import Tally, running_heads, watch
from fairseq_normalign.heads.head_scores import (
    HEAD_SCORES,
    ProfileOptions,
    check_scores,
    default_scores,
)
from fairseq_normalign.heads.profile import Finding, Profile
from fairseq_normalign.host.attention_modules import head_counts, head_names
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.raw_corpus import PAIRS, ChunkReader
from fairseq_normalign.host.teacher_forcing import Model
from fairseq_normalign.names import Head, all_heads
from fairseq_normalign.progress import bar
from fairseq_normalign.runs.chunks import Chunk, Partial
from fairseq_normalign.runs.engines import Progress
from fairseq_normalign.runs.joins import arrays_of, merged
from fairseq_normalign.runs.measure import measure_here

Known = Mapping[str, Any]  # what was prepared, as JSON holds it
Pairs = Mapping[int, Pair]  # by line


class HeadMeasure:
    """A score of heads that runs the model in its own way, as a ``runs.measure.Measure``.

    ``add`` adds to a tally what some pairs say, and ``finding`` is what the tally of all pairs
    says; both know the names of heads and what ``prepared`` has found out before, as JSON holds it.
    """

    score: str  # in the table
    name: str  # the same, unless there are several models
    pairs_per_chunk = 20
    first_pairs = 0
    tells_notes = False

    def __init__(self, options: ProfileOptions):
        self.options = options

    def items(self, pairs: Sequence[Any]) -> Sequence[Any]:
        """What is measured of a corpus."""
        return pairs

    def pairs(self, models: ChunkReader, chunk: Chunk) -> tuple[Sequence[Pair], dict[str, Any]]:
        """The pairs of a chunk, and what is to be told of it."""
        return models.pairs(chunk)

    def prepare(self, models: ChunkReader, first: Chunk) -> dict[str, Any]:
        """The heads with the names that they had before any was removed, and what else is known."""
        heads = all_heads(running_heads(models.forcing))
        if not heads:
            raise InputError("the model has no attention heads left")
        model = models.forcing.model
        first_names = dict(zip(all_heads(head_counts(model)), head_names(model), strict=True))
        names = [[head, first_names[head]] for head in heads]
        return {"names": names, **self.prepared(models, first)}

    def prepared(self, models: ChunkReader, first: Chunk) -> dict[str, Any]:
        """What is decided once, on the first pairs."""
        return {}

    def chunk(
        self, models: ChunkReader, chunk: Chunk, prepared: Known, progress: Progress
    ) -> Partial:
        pairs, notes = self.pairs(models, chunk)
        by_line = {line: pair for line, pair in enumerate(pairs, chunk.first) if not pair.skipped}
        tally = Tally({"pairs.sum": np.array([len(by_line)])})
        if by_line:
            self.add(tally, models, by_line, prepared)
        progress(len(pairs))
        return Partial(tally.arrays, notes=notes if self.tells_notes else {})

    def add(self, tally: Tally, models: ChunkReader, pairs: Pairs, prepared: Known) -> None:
        """Adds what some pairs say, which come by their lines."""

    merge = staticmethod(merged)

    def finding(self, tally: Tally, prepared: Known) -> Finding | Mapping[Head, float]:
        """What all pairs say."""
        return tally.means()

    def finish(self, total: Partial, prepared: Known) -> dict[str, Finding]:
        """The findings of each score."""
        tally = Tally(total.arrays, names_of(prepared))
        return {self.score: _as_finding(self.finding(tally, prepared))}


def names_of(prepared: Known, kind: str | None = None) -> dict[Head, Head]:
    """The names of all heads, or of one kind, by where they are in the model."""
    names = {}
    for head, name in prepared["names"]:
        if kind in (None, head[0]):
            names[Head(*head)] = Head(*name)
    return names


class AttentionPass(HeadMeasure):
    """Which heads there are, and all scores that only look at attention, in one pass."""

    pairs_per_chunk = 200
    tells_notes = True

    def __init__(self, options: ProfileOptions, scores: Sequence[str]):
        super().__init__(options)
        self.scores = scores

    def _watchers(self) -> dict[str, Any]:
        return {name: HEAD_SCORES[name].measure(self.options) for name in self.scores}

    def add(self, tally: Tally, models: ChunkReader, pairs: Pairs, prepared: Known) -> None:
        tally.join("words.sum", [sum(len(pair.source.text) for pair in pairs.values())])
        watchers = self._watchers()
        if watchers:
            every = list(watchers.values())
            watch(models.forcing, pairs.values(), every, max_tokens=self.options.max_tokens)
        for score, watcher in watchers.items():
            for name, array in watcher.tally.arrays.items():
                tally.join(f"{score}:{name}", array)

    def finish(self, total: Partial, prepared: Known) -> dict[str, Finding]:
        if not total.arrays.get("words.sum", 0):
            raise InputError("heads cannot be measured on a corpus without words")
        names = names_of(prepared)
        settings = {"sentences": int(total.arrays["pairs.sum"][0])}
        no_roles = dict.fromkeys(names.values(), ())
        findings = {"attention": Finding(settings=settings, roles=no_roles)}
        for score, watcher in self._watchers().items():
            watcher.tally = Tally(arrays_of(total.arrays, f"{score}:"), names)
            findings[score] = _as_finding(watcher.result())
        return findings


def _as_finding(measured: Finding | Mapping[Head, float]) -> Finding:
    return measured if isinstance(measured, Finding) else Finding(measured)


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
    watching = [name for name in scores if HEAD_SCORES[name].watches]
    measures: dict[str, HeadMeasure] = {"attention": AttentionPass(options, watching)}
    for name, score in HEAD_SCORES.items():
        if name in scores and not score.watches:
            measures[name] = score.measure(options)
    for name, measure in measures.items():
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
    pairs: Sequence[Pair],
    scores: Sequence[str] | None = None,
    options: ProfileOptions | None = None,
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
    """
    alone = model.forcing.attention == "encoder"
    names = default_scores(encoder_alone=alone) if scores is None else scores
    options = replace(options or ProfileOptions(), **changes)
    in_memory = ChunkReader([model], PAIRS)
    findings: dict[str, Finding] = {}
    for measure in head_measures(names, options, encoder_alone=alone):
        items = measure.items(pairs)
        with bar(measure.name, total=len(items)) as shown:
            findings |= measure_here(measure, in_memory, items, shown.update)
    return profile_of(findings)


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
