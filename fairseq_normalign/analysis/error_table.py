"""Error rates of every layer (and head), by method and step, in one pass over a corpus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from fairseq_normalign.alignment.aer import Counts, count
from fairseq_normalign.alignment.error_table import ErrorTable
from fairseq_normalign.alignment.links import Gold, GoldFile, InMemory, Link, read_together
from fairseq_normalign.alignment.soft import STEPS, Choice, Evidence
from fairseq_normalign.analysis.aligner import AlignOptions, NormAligner, Progress
from fairseq_normalign.analysis.gold_check import warn_of_misread_gold
from fairseq_normalign.analysis.layer_choice import SAMPLE, choose_layers, decisive_pairs
from fairseq_normalign.analysis.methods import method_of
from fairseq_normalign.analysis.profile import Model
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing


def error_table(
    model: Model,
    pairs: Iterable[Pair],
    gold: GoldFile,
    methods: Sequence[str],
    *,
    options: AlignOptions,
    heads: bool = False,
    progress: Progress | None = None,
) -> ErrorTable:
    """AER of each layer, and of each head if asked for; says if the gold looks misread.

    Args:
        options: what the table leaves open: </s>, merging of pieces, extraction, size of batches.
    """
    aligner = NormAligner(model.forcing, model.reader, options)
    rest = iter(pairs)
    first = list(islice(rest, SAMPLE))
    choices = _choices(aligner, first, methods)
    evidences = list(_evidences(aligner.forcing, methods, heads=heads))
    softs = aligner.evidences_many(chain(first, rest), evidences, progress=progress)
    totals = [Counts()] * len(evidences)
    likely = evidences.index(_likely(methods[0], choices))
    sample: list[tuple[set[Link], Gold]] = []  # to see whether the gold is read right
    for golds, of_pair in read_together(gold, InMemory("the corpus", softs)):
        links = [set(aligner.links(soft)) for soft in of_pair]
        for place, of_evidence in enumerate(links):
            totals[place] += count(of_evidence, golds)
        if len(sample) < SAMPLE:
            sample.append((links[likely], golds))
    if sample:
        sampled_links, sampled_golds = zip(*sample, strict=True)
        warn_of_misread_gold(sampled_links, sampled_golds, gold)
    return ErrorTable(dict(zip(evidences, totals, strict=True)), choices)


def _choices(aligner: NormAligner, first: list[Pair], methods: Sequence[str]) -> dict[str, Choice]:
    """What would be chosen without gold, by method."""
    sample = decisive_pairs(first, aligner.reader, aligner.forcing)
    options = aligner.options
    choices = {}
    for method in methods:
        is_by_layer = method_of(method).layers  # or there is nothing to choose
        choices[method] = choose_layers(
            aligner.forcing,
            sample if is_by_layer else [],
            method,
            null=options.null,
            merges=options.merges,
            batch_tokens=options.batch_tokens,
        )
    return choices


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
            if method.layers == (layer is not None) and step in method.steps:
                yield Evidence(name, layer, step, head)


def _likely(method: str, choices: dict[str, Choice]) -> Evidence:
    """An evidence whose links should not look absurd."""
    layers, step = choices[method]
    return Evidence(method, layers[step], step)
