"""Scores of all heads of a model: everything but roles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

from tqdm import tqdm

from fairseq_normalign.alignment.aer import Counts, count
from fairseq_normalign.alignment.extract import argmax
from fairseq_normalign.alignment.links import InMemory, read_together
from fairseq_normalign.alignment.soft import STEPS, Evidence
from fairseq_normalign.analysis.attention_pass import Means, running_heads, watch
from fairseq_normalign.analysis.importance import gradient_importance
from fairseq_normalign.analysis.methods import soft_alignments
from fairseq_normalign.analysis.pair_relevance import relevances
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.lrp_rules import Contributions, contributions
from fairseq_normalign.heads.names import Head, all_heads
from fairseq_normalign.heads.tally import Tally
from fairseq_normalign.host.batches import map_batches, numbered_batches
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.recorder import attentions
from fairseq_normalign.host.teacher_forcing import TeacherForcing

Scores = dict  # Head → float


class Explained(NamedTuple):
    """What LRP says of a corpus."""

    # share of a head in its layer's relevance, mean over predictions (Voita et al., 2019)
    heads: Scores
    deviation: dict[str, float]  # the farthest that a total was from 1, at the input of each layer
    contributions: list[Contributions]  # of each sentence, in any order (Voita et al., 2021)


def explain(
    forcing: TeacherForcing,
    pairs: Iterable[Pair],
    *,
    rules: str = "voita",
    pooled: bool = False,
    max_tokens: int = 4000,
) -> Explained:
    """Relevance of heads and of source and prefix, over a corpus.

    Pooled, all predictions of a pair are explained together, and the mean is over pairs.
    """
    tally, deviation, found = Tally(), {}, []
    with tqdm(desc="relevance", unit=" pairs", disable=None) as bar:
        for numbered in numbered_batches(pairs, max_tokens=max_tokens):
            batch = [pair for _, pair in numbered]
            for one in relevances(
                forcing, batch, rules=rules, pooled=pooled, max_tokens=max_tokens
            ):
                bar.update()
                for attention, shares in one.heads.items():  # (P, H)
                    tally.add(attention, shares.sum(0), len(shares))
                for cut, distance in one.deviation.items():
                    deviation[cut] = max(distance, deviation.get(cut, 0.0))
                found.append(contributions(one.source, one.prefix))
    return Explained(tally.means(), deviation, found)


def mean_relevance(
    forcing: TeacherForcing, pairs: Iterable[Pair], *, max_tokens: int = 4000
) -> Scores:
    return explain(forcing, pairs, max_tokens=max_tokens).heads


def _mean_of(
    name: str, forcing: TeacherForcing, pairs: Iterable[Pair], *, max_tokens: int
) -> Scores:
    means = Means()
    watch(forcing, pairs, [means], max_tokens=max_tokens)
    return means.scores()[name]


SCORES: dict[str, Callable[..., Scores]] = {
    "norm": partial(_mean_of, "norm"),
    "confidence": partial(_mean_of, "confidence"),
    "relevance": mean_relevance,
    "importance": gradient_importance,
}


def head_scores(
    forcing: TeacherForcing, pairs: Iterable[Pair], by: str, *, max_tokens: int = 4000
) -> Scores:
    """A number for every head of the model; the bigger, the more it is worth keeping.

    Args:
        by: ``norm``: mean ‖αf(x)‖; ``confidence``; ``relevance`` by LRP; ``importance`` by
            gradients.
    """
    if by not in SCORES:
        raise InputError(f"unknown score of heads {by!r}; expected one of: {', '.join(SCORES)}")
    heads = all_heads(running_heads(forcing))
    found = SCORES[by](forcing, pairs, max_tokens=max_tokens) if heads else {}
    if any(head not in found for head in heads):
        raise InputError("heads cannot be scored on a corpus without words on both sides")
    return {head: found[head] for head in heads}


def gate_values(forcing: TeacherForcing) -> Scores:
    """The gate of each head at test time; empty if the model has none."""
    found = {}
    for name, attention in attentions(forcing.model).items():
        values = getattr(attention.out_proj, "gate_values", None)
        if values is not None:
            found.update(
                {Head(*name, head): float(gate) for head, gate in enumerate(values().detach())}
            )
    return found


def head_aers(
    forcing: TeacherForcing,
    pairs: Iterable[Pair],
    gold: InMemory,
    *,
    steps: Sequence[str] = tuple(STEPS),
    max_tokens: int = 4000,
) -> dict[Head, tuple[float, str]]:
    """AER of each head of the source–target attentions, and the step that gave it, the best of
    those named.

    Links are the argmax of ‖αf(x)‖ for each target word; none if </s> has more.
    """
    evidences = [
        Evidence("norms", layer, step, head)
        for layer, heads in enumerate(forcing.head_counts)
        for head, step in product(range(heads), steps)
    ]
    if not evidences:
        return {}
    totals = [Counts()] * len(evidences)
    softs = map_batches(
        pairs,
        partial(soft_alignments, forcing, evidences=evidences),
        max_tokens=max_tokens,
        window=100,
    )
    for links, row in read_together(gold, InMemory("the corpus", softs)):
        found = [count(set(argmax(soft.words, null=soft.null)), links) for soft in row]
        totals = [total + more for total, more in zip(totals, found, strict=True)]
    best: dict[Head, tuple[float, str]] = {}
    for evidence, total in zip(evidences, totals, strict=True):
        head = Head("cross", evidence.layer, evidence.head)
        best[head] = min(best.get(head, (1.0, evidence.step)), (total.aer, evidence.step))
    return best
