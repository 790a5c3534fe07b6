"""Error rates of every layer (and head), by method and step, in one pass over a corpus."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, islice

import numpy as np

from fairseq_normalign.alignment.aer import Counts, count, intervals
from fairseq_normalign.alignment.aligner import AlignOptions, NormAligner, Progress
from fairseq_normalign.alignment.error_table import ErrorTable
from fairseq_normalign.alignment.evidence import every_evidence
from fairseq_normalign.alignment.layer_choice import SAMPLE, LayerVote, decisive_pairs
from fairseq_normalign.alignment.link_doctor import warn_of_misread_gold
from fairseq_normalign.attention.methods import method_of
from fairseq_normalign.attention.soft import STEPS, Evidence
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import Model
from fairseq_normalign.text.links import Gold, GoldFile, InMemory, Link, read_together

SMALL = 8  # batches of methods that run the model by themselves: they take minutes for a big one


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
        progress: called with the number of pairs that were finished since its last call.
        refuse_misread: refuse gold that looks misread if a flag would mend it.
    """
    options = options or AlignOptions()
    if not all(method_of(method).needs for method in methods):
        options = replace(options, batch_tokens=max(1, options.batch_tokens // SMALL))
    aligner = NormAligner(model.forcing, model.reader, options)
    rest = iter(pairs)
    first = list(islice(rest, SAMPLE))
    if not first:
        raise InputError("error rates cannot be measured on a corpus without pairs")
    votes = {}
    for method in methods:
        candidates = every_evidence(model.forcing, [method], heads=False)
        votes[method] = LayerVote(candidates, null=options.null)
    first_decide = _first_decide(votes.values(), aligner, first)
    evidences = sorted(every_evidence(model.forcing, methods, heads=heads), key=_place_in_table)
    of_pairs = aligner.evidences_many(chain(first, rest), evidences, progress=progress)
    counts = array("d")
    sample: list[tuple[dict[Evidence, set[Link]], Gold]] = []  # to see whether gold is read right
    for golds, softs in read_together(gold, InMemory("the corpus", of_pairs)):
        soft_of = dict(zip(evidences, softs, strict=True))
        links = {}
        for evidence, soft in soft_of.items():
            links[evidence] = set(aligner.links_of(soft, evidence.method))
            counts.extend(count(links[evidence], golds))
        if len(sample) < SAMPLE:
            of_layers = {layer: links[layer] for layer in votes[methods[0]].candidates}
            sample.append((of_layers, golds))
            for vote in votes.values() if first_decide else ():
                vote.add([soft_of[candidate] for candidate in vote.candidates])
    by_pair = np.asarray(counts).reshape(-1, len(evidences), 4)
    totals = [Counts(*total) for total in by_pair.sum(axis=0).astype(int).tolist()]
    table = ErrorTable(
        dict(zip(evidences, totals, strict=True)),
        {method: vote.choice() for method, vote in votes.items()},
        dict(zip(evidences, intervals(by_pair), strict=True)),
        {method: options.rule_of(method) for method in methods},
    )
    likely = table.choice(methods[0])  # whose links should not look absurd
    links_of_sample = [of_layers[likely] for of_layers, _ in sample]
    golds_of_sample = [golds for _, golds in sample]
    advice = warn_of_misread_gold(links_of_sample, golds_of_sample, gold, refuse=refuse_misread)
    return replace(table, advice=advice)


def _first_decide(votes: Iterable[LayerVote], aligner: NormAligner, first: list[Pair]) -> bool:
    """Whether the first pairs are to vote; if they are too few, the validation set has."""
    open_votes = [vote for vote in votes if len(vote.candidates) > 1]
    if not open_votes:
        return False
    pairs = decisive_pairs(first, aligner.reader, aligner.forcing)
    if pairs is first:
        return True
    for vote in open_votes:
        for softs in aligner.evidences_many(pairs, vote.candidates):
            vote.add(softs)
    return False


def _place_in_table(evidence: Evidence) -> tuple[bool, int, int, int]:
    """By layer, head and step; the whole model last."""
    _, layer, step, head = evidence
    return layer is None, layer or 0, -1 if head is None else head, list(STEPS).index(step)
