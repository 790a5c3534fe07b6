"""Relevance for sentence pairs, in as large pieces as memory allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairseq_normalign.analysis.lrp_walk import Relevance, propagate
from fairseq_normalign.host.pairs import Pair

if TYPE_CHECKING:
    from fairseq_normalign.host.teacher_forcing import TeacherForcing


class SentenceRelevance(NamedTuple):
    """Relevance for one sentence pair without padding, as in ``relprop.Relevance``; and how far
    totals are from 1."""

    heads: dict[tuple[str, int], np.ndarray]  # (P, H)
    source: np.ndarray  # (P, S)
    prefix: np.ndarray  # (P, T)
    deviation: dict[str, float]


def relevances(
    forcing: TeacherForcing,
    pairs: list[Pair],
    *,
    rules: str = "voita",
    pooled: bool = False,
    start: str = "top",
    max_tokens: int = 4000,
) -> Iterator[SentenceRelevance]:
    """Relevance for each pair of a batch.

    Args:
        max_tokens: how many vectors of relevance are held at once, one for each prediction and
            token: a batch, and a sentence's predictions, are split to keep to it. Other arguments
            are those of :func:`propagate`.
    """
    forcing.check_lengths(pairs)
    for group in _groups(pairs, pooled, max_tokens):
        yield from _of_group(forcing, group, rules, pooled, start, max_tokens)


def _longest(pairs: Sequence[Pair]) -> int:
    return max(len(side.tokens) for pair in pairs for side in (pair.source, pair.target))


def _predictions(pairs: Sequence[Pair]) -> int:
    return max(len(pair.target.tokens) for pair in pairs)


def _groups(pairs: list[Pair], pooled: bool, max_tokens: int) -> Iterator[list[Pair]]:
    """Neighbours that fit together."""
    group: list[Pair] = []
    for pair in pairs:
        wider = [*group, pair]
        if (
            group
            and len(wider) * _longest(wider) * (1 if pooled else _predictions(wider)) > max_tokens
        ):
            yield group
            wider = [pair]
        group = wider
    if group:
        yield group


def _of_group(
    forcing: TeacherForcing,
    pairs: list[Pair],
    rules: str,
    pooled: bool,
    start: str,
    max_tokens: int,
) -> Iterator[SentenceRelevance]:
    src_tokens, prev_output_tokens, targets = forcing.tensors(pairs)
    size = targets.shape[1] if pooled else max(1, max_tokens // (len(pairs) * _longest(pairs)))
    found = [
        propagate(
            forcing.model,
            src_tokens,
            prev_output_tokens,
            pad=forcing.pad,
            rules=rules,
            pooled=pooled,
            start=start,
            targets=targets,
            positions=positions,
        )
        for positions in torch.arange(targets.shape[1]).split(size)
    ]
    for index, pair in enumerate(pairs):
        yield _of_sentence(found, index, len(pair.source.tokens), len(pair.target.tokens), pooled)


def _of_sentence(
    found: list[Relevance], index: int, keys: int, queries: int, pooled: bool
) -> SentenceRelevance:
    """One sentence of a batch whose predictions come in parts."""
    rows = 1 if pooled else queries

    def joined(parts: list[Tensor]) -> np.ndarray:
        return torch.cat([part[index] for part in parts])[:rows].cpu().numpy()

    totals = {cut: joined([part.totals[cut] for part in found]) for cut in found[0].totals}
    return SentenceRelevance(
        {name: joined([part.heads[name] for part in found]) for name in found[0].heads},
        joined([part.source for part in found])[:, :keys],
        joined([part.prefix for part in found])[:, :queries],
        {cut: float(np.abs(total - 1).max()) for cut, total in totals.items()},
    )
