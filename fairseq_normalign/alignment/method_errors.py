"""Error rates of every layer (and head), by method and step, in one pass over a corpus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_normalign.alignment.aer import Counts, count, intervals
from fairseq_normalign.alignment.aligner import AlignOptions, NormAligner, Progress
from fairseq_normalign.alignment.error_table import ErrorTable, chosen_place
from fairseq_normalign.alignment.evidence import every_evidence
from fairseq_normalign.alignment.layer_choice import SAMPLE, LayerVote, decisive_samples
from fairseq_normalign.alignment.link_doctor import warn_of_misread_gold
from fairseq_normalign.alignment.method_cost import method_costs
from fairseq_normalign.attention.methods import method_of
from fairseq_normalign.attention.soft import STEPS, Choice, Evidence
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.raw_corpus import PAIRS, ChunkReader
from fairseq_normalign.host.teacher_forcing import Model
from fairseq_normalign.runs.chunks import Chunk, Partial
from fairseq_normalign.runs.joins import merged
from fairseq_normalign.runs.measure import measure_here
from fairseq_normalign.text.links import Gold, GoldFile, InMemory, read_together
from fairseq_normalign.version import __version__

SMALL = 8  # batches of methods that run the model by themselves: they take minutes for a big one
CHECKED = 100  # pairs whose links show whether the gold is read right


@dataclass
class MethodErrors:
    """The measure: counts of each pair, layer, method and step. Items are made by ``with_gold``.

    Args:
        options: what the table leaves open: </s>, merging of pieces, extraction, size of batches.
        heads: measure single heads, too.
        costs: measure what each method costs, on the first pairs.
        refuse_misread: refuse gold that looks misread if a flag would mend it.
        name: tells one model of several from the others.
    """

    gold: GoldFile
    methods: Sequence[str]
    options: AlignOptions
    heads: bool = False
    costs: bool = False
    refuse_misread: bool = False
    name: str = "errors"

    pairs_per_chunk: int = field(init=False)
    first_pairs = SAMPLE

    def __post_init__(self) -> None:
        self.in_one_pass = all(method_of(method).needs for method in self.methods)
        self.pairs_per_chunk = 100 if self.in_one_pass else 20

    def _aligner(self, model: Model) -> NormAligner:
        tokens = self.options.batch_tokens
        if not self.in_one_pass:
            tokens = max(1, tokens // SMALL)
        return NormAligner(model.forcing, model.reader, self.options, batch_tokens=tokens)

    def prepare(self, models: ChunkReader, first: Chunk) -> dict[str, Any]:
        """Chooses layers without gold, and looks whether the gold is read right."""
        pairs, golds, _ = _apart(models, first)
        if not pairs:
            raise InputError("error rates cannot be measured on a corpus without pairs")
        aligner = self._aligner(models)
        choices = layer_choices(aligner, self.methods, pairs)
        places = {method: chosen_place(method, choice) for method, choice in choices.items()}
        likely = places[self.methods[0]]  # whose links should not look absurd
        links = []
        for (soft,) in aligner.evidences_many(pairs[:CHECKED], [likely]):
            links.append(set(aligner.links(soft, likely.method)))
        refuse = self.refuse_misread
        advice = warn_of_misread_gold(links, golds[:CHECKED], self.gold, refuse=refuse)
        costs: dict[str, Any] = {}
        if self.costs:
            costs = method_costs(models.forcing, pairs, places, self.options.batch_tokens)
        evidences = every_evidence(models.forcing, self.methods, heads=self.heads)
        return {
            "evidences": sorted(evidences, key=_place_in_table),
            "choices": choices,
            "advice": advice,
            "costs": costs,
        }

    def chunk(
        self, models: ChunkReader, chunk: Chunk, prepared: Mapping[str, Any], progress: Progress
    ) -> Partial:
        pairs, golds, notes = _apart(models, chunk)
        aligner, evidences = self._aligner(models), _evidences(prepared)
        rows = []
        of_pairs = aligner.evidences_many(pairs, evidences, progress=progress)
        for softs, gold in zip(of_pairs, golds, strict=True):
            row = []
            for evidence, soft in zip(evidences, softs, strict=True):
                row.append(count(set(aligner.links(soft, evidence.method)), gold))
            rows.append(row)
        return Partial({"counts.rows": np.array(rows, dtype=np.int32)}, notes=notes)

    merge = staticmethod(merged)

    def finish(self, total: Partial, prepared: Mapping[str, Any]) -> ErrorTable:
        evidences, by_pair = _evidences(prepared), total.arrays["counts.rows"]  # (N, E, 4)
        totals = [Counts(*counts) for counts in by_pair.sum(axis=0).tolist()]
        return ErrorTable(
            dict(zip(evidences, totals, strict=True)),
            {method: Choice(*choice) for method, choice in prepared["choices"].items()},
            dict(zip(evidences, intervals(by_pair), strict=True)),
            {method: self.options.rule_of(method) for method in self.methods},
            prepared["costs"],
            prepared["advice"],
            self.signature(),
        )

    def signature(self) -> dict[str, object]:
        """The gold, and how soft alignments become links; of some methods in their own way."""
        common = self.options.extraction()
        signature = {"gold": Path(self.gold.name).name, **self.gold.read_as(), **common}
        for method in self.methods:
            way = self.options.extraction(method)
            if way != common:
                signature[method] = ",".join(way.values())
        return {**signature, "version": __version__}


def layer_choices(
    aligner: NormAligner, methods: Iterable[str], first: Sequence[Pair]
) -> dict[str, Choice]:
    """What is chosen of each method without gold, on the first pairs or the validation set."""
    votes = {}
    for method in methods:
        candidates = every_evidence(aligner.forcing, [method], heads=False)
        votes[method] = LayerVote(candidates, null=aligner.options.null)
    voting = [vote for vote in votes.values() if len(vote.candidates) > 1]
    if voting:
        (pairs,) = decisive_samples([aligner], [list(first)])
        evidences = [candidate for vote in voting for candidate in vote.candidates]
        for softs in aligner.evidences_many(pairs, evidences):
            soft_of = dict(zip(evidences, softs, strict=True))
            for vote in voting:
                vote.add([soft_of[candidate] for candidate in vote.candidates])
    return {method: vote.choice() for method, vote in votes.items()}


def with_gold(gold: GoldFile, items: Iterable[Any]) -> Iterator[Any]:
    """Pairs, in whatever form, each with its sure and possible links."""
    for links, item in read_together(gold, InMemory("the corpus", items)):
        yield item, sorted(links.sure), sorted(links.possible)


def _apart(
    models: ChunkReader, chunk: Chunk
) -> tuple[Sequence[Pair], list[Gold], Mapping[str, Any]]:
    """The pairs of a chunk, their gold, and the notes of the chunk."""
    items, golds = [], []
    for item, sure, possible in chunk.items:
        items.append(item)
        golds.append(Gold(set(sure), set(possible)))
    pairs, notes = models.pairs(chunk._replace(items=items))
    return pairs, golds, notes


def error_table(
    model: Model,
    pairs: Iterable[Pair],
    gold: GoldFile,
    methods: Sequence[str],
    *,
    options: AlignOptions | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> ErrorTable:
    """AER of each layer, and of each head if ``heads``; warns if the gold seems to be misread.

    Args:
        options: what the table leaves open: </s>, merging of pieces, extraction, size of batches.
        progress: called with the number of pairs that were finished since its last call.
        settings: ``heads``, ``costs`` and ``refuse_misread`` of ``MethodErrors``.
    """
    measure = MethodErrors(gold, methods, options or AlignOptions(), **settings)
    return measure_here(measure, ChunkReader([model], PAIRS), with_gold(gold, pairs), progress)


def _evidences(prepared: Mapping[str, Any]) -> list[Evidence]:
    return [Evidence(*evidence) for evidence in prepared["evidences"]]


def _place_in_table(evidence: Evidence) -> tuple[bool, int, int, int]:
    """By layer, head and step; the whole model last."""
    _, layer, step, head = evidence
    return layer is None, layer or 0, -1 if head is None else head, list(STEPS).index(step)
