"""Which decoder layer aligns best at which step, found without gold."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice, product
from typing import NamedTuple

from fairseq_normalign.alignment.agreement import agreement
from fairseq_normalign.alignment.extract import argmax, mutual_argmax
from fairseq_normalign.alignment.soft import STEPS, Evidence
from fairseq_normalign.analysis.methods import soft_alignments
from fairseq_normalign.errors import MissingSubset
from fairseq_normalign.host.batches import map_batches
from fairseq_normalign.host.binarised import binarised_pairs
from fairseq_normalign.host.pairs import Pair, PairReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing

SAMPLE = 500  # how many pairs decide
FEW = 50  # too few to decide on: the validation set is asked instead, if there is one


def decisive_pairs(first: list[Pair], reader: PairReader, forcing: TeacherForcing) -> list[Pair]:
    """Pairs to decide on: the first ones of the corpus or, if they are few, those of the validation
    set."""
    if len(first) >= FEW:
        return first
    try:
        valid = islice(binarised_pairs("valid", reader)[0], SAMPLE)
    except MissingSubset:
        warnings.warn(
            f"layer and step are decided on {len(first)} pairs, as there is no validation set; "
            "better name them",
            stacklevel=2,
        )
        return first
    return [pair for pair in valid if forcing.takes(pair)]


class Choice(NamedTuple):
    """The layer, from 0, to take for each step, and the better one of the steps."""

    layers: dict[str, int]
    step: str


def choose_layers(
    forcing: TeacherForcing,
    pairs: Iterable[Pair],
    method: str = "norms",
    *,
    layers: Sequence[int] | None = None,
    null: bool = True,
    batch_tokens: int = 4000,
) -> Choice:
    """Finds the layer and step that align best, and the layer that aligns best at the other step.

    Words correspond almost one to one, and a layer that does not align has no reason to show it:
    the best layer and step are those where most words choose each other (mutual argmax). At the
    other step, a layer that aligns must tell
    the same story: the one whose links agree most with the best.

    Args:
        layers: the candidates, from 0; all of them by default.
        null: whether a word that takes most from </s> has no link.
    """
    if layers is None:  # but those that pruning left without a head
        layers = [layer for layer, heads in enumerate(forcing.head_counts) if heads] or range(
            forcing.layers
        )
    candidates = [Evidence(method, layer, step) for layer, step in product(layers, STEPS)]
    links: dict[Evidence, list] = {evidence: [] for evidence in candidates}
    mutual = dict.fromkeys(candidates, 0)
    for softs in map_batches(
        pairs, partial(soft_alignments, forcing, evidences=candidates), max_tokens=batch_tokens
    ):
        for evidence, soft in zip(candidates, softs, strict=True):
            links[evidence].append(set(argmax(soft.words, null=soft.null if null else None)))
            mutual[evidence] += len(mutual_argmax(soft.words))
    best = max(candidates, key=mutual.get)
    others = [evidence for evidence in candidates if evidence.step != best.step]
    other = max(others, key=lambda evidence: agreement(links[best], links[evidence]))
    return Choice({best.step: best.layer, other.step: other.layer}, best.step)
