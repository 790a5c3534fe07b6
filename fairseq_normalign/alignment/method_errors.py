"""Error rates of every layer (and head), by method and step, in one pass over a corpus."""

from __future__ import annotations

from array import array
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, tee

import numpy as np

from fairseq_normalign.alignment.aer import Counts, count, intervals
from fairseq_normalign.alignment.aligner import AlignOptions, NormAligner, Progress
from fairseq_normalign.alignment.error_table import ErrorTable
from fairseq_normalign.alignment.layer_choice import (
    SAMPLE,
    LayerVote,
    decisive_pairs,
    layer_candidates,
)
from fairseq_normalign.alignment.link_doctor import warn_of_misread_gold
from fairseq_normalign.attention.extract import links_of
from fairseq_normalign.attention.methods import method_of
from fairseq_normalign.attention.soft import STEPS, Choice, Evidence, Soft
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import Model, TeacherForcing
from fairseq_normalign.text.links import Gold, GoldFile, InMemory, Link, read_together


def error_table(
    model: Model,
    pairs: Iterable[Pair],
    gold: GoldFile,
    methods: Sequence[str],
    *,
    options: AlignOptions | None = None,
    heads: bool = False,
    progress: Progress | None = None,
    refuse_misread: bool = False,
) -> ErrorTable:
    """AER of each layer, and of each head if asked for; says if the gold looks misread.

    Of each pair and cell four counts are kept, for the intervals.

    Args:
        options: what the table leaves open: </s>, merging of pieces, extraction, size of batches.
        progress: called with the number of pairs that one of the ``passes`` has finished.
        refuse_misread: refuse gold that looks misread if a flag would mend it.
    """
    options = options or AlignOptions()
    aligner = NormAligner(model.forcing, model.reader, options)
    rest = iter(pairs)
    first = list(islice(rest, SAMPLE))
    if not first:
        raise InputError("error rates cannot be measured on a corpus without pairs")
    election = _Election(aligner, methods)
    vote_along = election.is_decided_by(first)
    evidences = list(_evidences(aligner.forcing, methods, heads=heads))
    softs = _softs(aligner, chain(first, rest), evidences, progress)
    counts = array("d")
    sample: list[tuple[dict[Evidence, set[Link]], Gold]] = []  # to see whether gold is read right
    for golds, of_pair in read_together(gold, InMemory("the corpus", softs)):
        links = {}
        for evidence in evidences:
            links[evidence] = _links(of_pair[evidence], evidence, options)
            counts.extend(count(links[evidence], golds))
        if len(sample) < SAMPLE:
            sample.append((_of_method(links, methods[0]), golds))
            if vote_along:
                election.add(of_pair)
    choices = election.choices()
    advice = _check_gold(sample, _likely(methods[0], choices), gold, refuse_misread)
    by_pair = np.asarray(counts).reshape(-1, len(evidences), 4)
    totals = [Counts(*total) for total in by_pair.sum(axis=0).astype(int).tolist()]
    return ErrorTable(
        dict(zip(evidences, totals, strict=True)),
        choices,
        dict(zip(evidences, intervals(by_pair), strict=True)),
        {method: options.rule_of(method) for method in methods},
        advice=advice,
    )


def passes(methods: Sequence[str]) -> list[list[str]]:
    """Methods by the pass that they need: those that share one come first, if there are any.

    Those that run the model by themselves have one each. They are slow: by itself, each can tell
    how far it is.
    """
    shared = [method for method in methods if method_of(method).needs]
    alone = [[method] for method in methods if not method_of(method).needs]
    return [shared, *alone] if shared else alone


def _softs(
    aligner: NormAligner,
    pairs: Iterable[Pair],
    evidences: Sequence[Evidence],
    progress: Progress | None,
) -> Iterator[dict[Evidence, Soft]]:
    """The soft alignments of each pair; progress is told of the pairs of each pass."""
    groups = passes(list(dict.fromkeys(evidence.method for evidence in evidences)))
    streams = []
    for methods, copy in zip(groups, tee(pairs, len(groups)), strict=True):
        of_pass = [evidence for evidence in evidences if evidence.method in methods]
        is_slow = not method_of(methods[0]).needs
        runner = _in_small_batches(aligner) if is_slow else aligner
        streams.append(_of_pass(runner, copy, of_pass, progress))
    for of_pair in zip(*streams, strict=True):
        yield dict(ChainMap(*of_pair))


def _in_small_batches(aligner: NormAligner) -> NormAligner:
    """The aligner, told more often how far it is: a slow method takes minutes for a big batch."""
    tokens = max(1, aligner.options.batch_tokens // 8)
    return NormAligner(aligner.forcing, aligner.reader, aligner.options, batch_tokens=tokens)


def _of_pass(
    aligner: NormAligner,
    pairs: Iterable[Pair],
    evidences: Sequence[Evidence],
    progress: Progress | None,
) -> Iterator[dict[Evidence, Soft]]:
    for softs in aligner.evidences_many(pairs, evidences, progress=progress):
        yield dict(zip(evidences, softs, strict=True))


class _Election:
    """What would be chosen without gold, by method."""

    def __init__(self, aligner: NormAligner, methods: Sequence[str]):
        self.aligner = aligner
        self.votes = {}
        for method in methods:
            candidates = layer_candidates(aligner.forcing, method)
            self.votes[method] = LayerVote(candidates, null=aligner.options.null)

    def is_decided_by(self, first: list[Pair]) -> bool:
        """Whether the first pairs are to vote; if they are too few, the validation set has."""
        open_votes = [vote for vote in self.votes.values() if len(vote.candidates) > 1]
        if not open_votes:
            return False
        pairs = decisive_pairs(first, self.aligner.reader, self.aligner.forcing)
        if pairs is first:
            return True
        for vote in open_votes:
            for softs in self.aligner.evidences_many(pairs, vote.candidates):
                vote.add(softs)
        return False

    def add(self, soft_of: Mapping[Evidence, Soft]) -> None:
        """Lets a pair vote."""
        for vote in self.votes.values():
            vote.add([soft_of[candidate] for candidate in vote.candidates])

    def choices(self) -> dict[str, Choice]:
        return {method: vote.choice() for method, vote in self.votes.items()}


def _links(soft: Soft, evidence: Evidence, options: AlignOptions) -> set[Link]:
    return set(links_of(soft, options.rule_of(evidence.method), null=options.null))


def _of_method(links: Mapping[Evidence, set[Link]], method: str) -> dict[Evidence, set[Link]]:
    """The links of the layers of one method, without those of heads."""
    return {
        evidence: of_evidence
        for evidence, of_evidence in links.items()
        if evidence.method == method and evidence.head is None
    }


def _check_gold(
    sample: Sequence[tuple[Mapping[Evidence, set[Link]], Gold]],
    likely: Evidence,
    gold: GoldFile,
    refuse: bool,
) -> list[str]:
    """Says if the gold looks misread, by links that should not look absurd."""
    if not sample:
        return []
    links = [by_evidence[likely] for by_evidence, _ in sample]
    return warn_of_misread_gold(links, [golds for _, golds in sample], gold, refuse=refuse)


def _evidences(
    forcing: TeacherForcing, methods: Sequence[str], *, heads: bool
) -> Iterator[Evidence]:
    """What the table has, by layer, head, step and method; the whole model last."""
    for layer in forcing.layers_with_heads():
        numbers = forcing.head_numbers[layer] if heads else ()
        for head in (None, *numbers):
            yield from _of_place(methods, layer, head)
    yield from _of_place(methods, None, None)


def _of_place(methods: Sequence[str], layer: int | None, head: int | None) -> Iterator[Evidence]:
    for step in STEPS:
        for name in methods:
            method = method_of(name)
            is_there = method.layers == (layer is not None) and (method.heads or head is None)
            if is_there and step in method.steps:
                yield Evidence(name, layer, step, head)


def _likely(method: str, choices: Mapping[str, Choice]) -> Evidence:
    """An evidence whose links should not look absurd."""
    layers, step, _ = choices[method]
    return Evidence(method, layers[step], step)
