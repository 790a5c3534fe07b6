"""Relevance for sentence pairs, in as large pieces as memory allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairseq_normalign.attention.lrp_rules import Epsilon, rule_set
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
) -> Iterator[SentenceRelevance]:
    """Relevance for each pair of a batch, as soon as it is computed.

    Args:
        max_tokens: how many vectors of relevance are held at once, one for each prediction and
            token: a batch, and a sentence's predictions, are split to keep to it. Other arguments
            are those of ``propagate``.
    """
    rules = rule_set(rules)
    forcing.check_lengths(pairs)
    for group in groups(pairs, pooled, max_tokens):
        yield from _of_group(forcing, group, rules, pooled, start, max_tokens)


def _longest(pairs: Sequence[Pair]) -> int:
    return max(pair.length for pair in pairs)


def _vectors(pairs: Sequence[Pair], pooled: bool) -> int:
    """How many vectors of relevance a batch has: one for each prediction and token."""
    predictions = 1 if pooled else max(len(pair.target.tokens) for pair in pairs)
    return len(pairs) * _longest(pairs) * predictions


def groups(pairs: list[Pair], pooled: bool, max_tokens: int) -> Iterator[list[Pair]]:
    """Neighbours that are explained together, as many as ``max_tokens`` allows."""
    group: list[Pair] = []
    for pair in pairs:
        if group and _vectors([*group, pair], pooled) > max_tokens:
            yield group
            group = []
        group = [*group, pair]
    if group:
        yield group


def _of_group(
    forcing: TeacherForcing,
    pairs: list[Pair],
    rules: Epsilon,
    pooled: bool,
    start: str,
    max_tokens: int,
) -> Iterator[SentenceRelevance]:
    src_tokens, prev_output_tokens, targets = forcing.tensors(pairs)
    length = targets.shape[1]
    size = length if pooled else max(1, max_tokens // (len(pairs) * _longest(pairs)))
    explain = partial(
        propagate,
        forcing.model,
        src_tokens,
        prev_output_tokens,
        pad=forcing.pad,
        rules=rules,
        pooled=pooled,
        start=start,
        targets=targets,
    )
    parts = [explain(positions=positions) for positions in torch.arange(length).split(size)]
    for index, pair in enumerate(pairs):
        yield _of_sentence(parts, index, pair, pooled)


def _of_sentence(parts: list[Relevance], index: int, pair: Pair, pooled: bool) -> SentenceRelevance:
    """One sentence of a batch whose predictions come in parts."""
    keys, queries = len(pair.source.tokens), len(pair.target.tokens)
    predictions = 1 if pooled else queries

    def joined(tensors: list[Tensor]) -> np.ndarray:
        of_sentence = torch.cat([tensor[index] for tensor in tensors])
        return of_sentence[:predictions].cpu().numpy()

    heads = {}
    for name in parts[0].heads:
        heads[name] = joined([part.heads[name] for part in parts])
    source = joined([part.source for part in parts])[:, :keys]
    prefix = joined([part.prefix for part in parts])[:, :queries]
    for relevance in (source, prefix):
        check_finite(relevance[None], [pair.where])
    deviation = {}
    for cut in parts[0].totals:
        totals = joined([part.totals[cut] for part in parts])
        deviation[cut] = float(np.abs(totals - 1).max())
    return SentenceRelevance(heads, source, prefix, deviation)


def source_relevance(forcing: TeacherForcing, pairs: list[Pair], rules: str) -> np.ndarray:
    """|R| of each source token for the logit of each reference token, (B, T, S)."""
    longest = max(pair.length for pair in pairs)
    matrix = np.zeros((len(pairs), longest, longest))
    at_once = len(pairs) * longest  # as many vectors as the batch has tokens
    by_pair = relevances(forcing, pairs, rules=rules, start="reference", max_tokens=at_once)
    for place, pair in enumerate(by_pair):
        queries, keys = pair.source.shape
        matrix[place, :queries, :keys] = np.abs(pair.source)
    return matrix
