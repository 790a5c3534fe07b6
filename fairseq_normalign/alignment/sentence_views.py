"""Every soft alignment of a few sentence pairs: all layers, heads, methods and steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from fairseq_normalign.alignment.aligner import NormAligner, Progress
from fairseq_normalign.attention.extract import links_of
from fairseq_normalign.attention.methods import method_of
from fairseq_normalign.attention.soft import Evidence, Soft
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.text.links import Link


class Aligned(NamedTuple):
    """A soft alignment, its links, and whether </s> takes part in it."""

    soft: Soft
    links: list[Link]
    null: bool


def every_evidence(
    forcing: TeacherForcing, methods: Sequence[str], *, heads: bool
) -> list[Evidence]:
    """By method, layer, head and step; the two steps of a head are neighbours, and much alike."""
    evidences = []
    for name in methods:
        method = method_of(name)
        layers = forcing.layers_with_heads() if method.layers else [None]
        for layer in layers:
            numbers: list[int | None] = [None]
            if heads and method.heads and layer is not None:
                numbers += forcing.head_numbers[layer]
            for head in numbers:
                evidences += [Evidence(name, layer, step, head) for step in method.steps]
    return evidences


def sentence_views(
    aligner: NormAligner,
    pairs: Iterable[Pair],
    evidences: Sequence[Evidence],
    *,
    progress: Progress | None = None,
) -> Iterator[list[Aligned]]:
    """What the model makes of each pair in each of these ways."""
    options = aligner.options
    for softs in aligner.evidences_many(pairs, evidences, progress=progress):
        of_pair = []
        for evidence, soft in zip(evidences, softs, strict=True):
            links = links_of(soft, options.rule_of(evidence.method), null=options.null)
            null = options.null and method_of(evidence.method).eos
            of_pair.append(Aligned(soft, links, null))
        yield of_pair
