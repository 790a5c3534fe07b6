"""How well each head of the source–target attention aligns by itself."""

from __future__ import annotations

from functools import partial

from fairseq_normalign.alignment.aer import Counts, count
from fairseq_normalign.alignment.extract import argmax
from fairseq_normalign.alignment.links import InMemory, read_together
from fairseq_normalign.alignment.soft import Evidence
from fairseq_normalign.analysis.profile import Survey
from fairseq_normalign.analysis.soft_alignments import soft_alignments
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.names import Head
from fairseq_normalign.heads.profile import Finding
from fairseq_normalign.host.batches import map_batches


def error_rates(survey: Survey) -> Finding:
    """AER of each head, and the step that gave it: the better one, if several are asked for.

    Links are the argmax of ‖αf(x)‖ for each target word; none if </s> has more.
    """
    if survey.options.gold is None:
        raise InputError("AER needs gold links; expected them with the pairs")
    evidences = _evidences(survey)
    if not evidences:
        return Finding()
    totals = _totals(survey, evidences)
    best: dict[Head, tuple[float, str]] = {}
    for evidence, total in zip(evidences, totals, strict=True):
        head = Head("cross", evidence.layer, evidence.head)
        best[head] = min(best.get(head, (1.0, evidence.step)), (total.aer, evidence.step))
    aers = {head: aer for head, (aer, _) in best.items()}
    return Finding(aers, {"steps": {head: step for head, (_, step) in best.items()}})


def _evidences(survey: Survey) -> list[Evidence]:
    evidences = []
    for layer, heads in enumerate(survey.forcing.head_counts):
        for head in range(heads):
            evidences += [Evidence("norms", layer, step, head) for step in survey.options.steps]
    return evidences


def _totals(survey: Survey, evidences: list[Evidence]) -> list[Counts]:
    """Counts of links for each evidence, over all pairs."""
    options = survey.options
    totals = [Counts()] * len(evidences)
    run = partial(soft_alignments, survey.forcing, evidences=evidences)
    softs = map_batches(survey.pairs, run, max_tokens=options.max_tokens, window=100)
    golds = InMemory(options.gold_name, options.gold)
    for gold, of_pair in read_together(golds, InMemory("the corpus", softs)):
        for place, soft in enumerate(of_pair):
            links = set(argmax(soft.words, null=soft.null))
            totals[place] += count(links, gold)
    return totals
