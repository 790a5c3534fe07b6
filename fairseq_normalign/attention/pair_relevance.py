"""Relevance for sentence pairs, in as large pieces as memory allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from fairseq_normalign.attention.lrp_rules import Epsilon
from fairseq_normalign.attention.lrp_walk import Relevance, propagate
from fairseq_normalign.attention.recorder import check_finite
from fairseq_normalign.host.attention_modules import Name
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing


class SentenceRelevance(NamedTuple):
    """Relevance for one sentence pair, as in ``lrp_walk.Relevance``, without padding.

    Also how far totals are from 1.
    """

    heads: dict[Name, np.ndarray]  # (P, H)
    source: np.ndarray  # (P, S)
    prefix: np.ndarray  # (P, T)
    deviation: dict[str, float]


def relevances(
    forcing: TeacherForcing,
    pairs: list[Pair],
    *,
    rules: str | Epsilon = "voita",
    pooled: bool = False,
    start: str = "top",
    max_tokens: int = 4000,
    only_source: bool = False,
) -> Iterator[SentenceRelevance]:
    """Relevance for each pair of a batch, as soon as it is computed.

    Args:
        start: which logit starts: ``top``, the highest one, or ``reference``, that of the token in
            the target.
        max_tokens: how many vectors of relevance are held at once, one for each prediction and
            token: a batch, and a sentence's predictions, are split to keep to it. Other arguments
            are those of ``propagate``.
    """
    forcing.check_lengths(pairs)
    for group in groups(pairs, pooled, max_tokens):
        src_tokens, prev_output_tokens, targets = forcing.tensors(group)
        relevance = propagate(
            forcing.model,
            src_tokens,
            prev_output_tokens,
            rules=rules,
            pooled=pooled,
            targets=targets if start == "reference" else None,
            at_once=max(1, max_tokens // _tokens(group)),
            only_source=only_source,
        )
        for index, pair in enumerate(group):
            yield _of_sentence(relevance, index, pair, pooled)


def _tokens(pairs: Sequence[Pair]) -> int:
    """Of a batch, padding included."""
    return len(pairs) * max(pair.length for pair in pairs)


def groups(pairs: list[Pair], pooled: bool, max_tokens: int) -> Iterator[list[Pair]]:
    """Neighbours that are explained together, as many as ``max_tokens`` allows."""
    group: list[Pair] = []
    for pair in pairs:
        longer = [*group, pair]
        predictions = 1 if pooled else max(len(member.target.tokens) for member in longer)
        if group and _tokens(longer) * predictions > max_tokens:
            yield group
            longer = [pair]
        group = longer
    if group:
        yield group


def _of_sentence(relevance: Relevance, index: int, pair: Pair, pooled: bool) -> SentenceRelevance:
    """One sentence of a batch, without padding."""
    keys, queries = len(pair.source.tokens), len(pair.target.tokens)
    predictions = 1 if pooled else queries

    def cut(tensor: Tensor) -> np.ndarray:
        return tensor[index, :predictions].cpu().numpy()

    source, prefix = cut(relevance.source)[:, :keys], cut(relevance.prefix)[:, :queries]
    check_finite(np.concatenate([source, prefix], axis=1)[None], [pair.where])
    heads = {name: cut(shares) for name, shares in relevance.heads.items()}
    deviation = {}
    for place, totals in relevance.totals.items():
        deviation[place] = float(np.abs(cut(totals) - 1).max())
    return SentenceRelevance(heads, source, prefix, deviation)


def source_relevance(forcing: TeacherForcing, pairs: list[Pair], rules: str) -> np.ndarray:
    """|R| of each source token for the logit of each reference token, (B, T, S)."""
    longest = max(pair.length for pair in pairs)
    matrix = np.zeros((len(pairs), longest, longest))
    at_once = len(pairs) * longest  # as many vectors as the batch has tokens
    by_pair = relevances(
        forcing, pairs, rules=rules, start="reference", max_tokens=at_once, only_source=True
    )
    for place, pair in enumerate(by_pair):
        queries, keys = pair.source.shape
        matrix[place, :queries, :keys] = np.abs(pair.source)
    return matrix
