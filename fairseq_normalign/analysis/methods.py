"""Soft alignments: each method turns what one attention did into a matrix (B, T, S).

A new method is one function and one line in :data:`METHODS`. ``head`` counts from 0; ``None`` takes
all heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from torch import Tensor

from fairseq_normalign.alignment.extract import to_words
from fairseq_normalign.alignment.soft import STEPS, Evidence, Soft
from fairseq_normalign.analysis.pair_relevance import relevances
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing, places_by_word
from fairseq_normalign.norms.contributions import Recorded


def weights(recorded: Recorded, head: int | None = None) -> Tensor:
    """α of one head, or averaged over heads."""
    return _mean(recorded.weights) if head is None else recorded.weights[:, head]


def norms(recorded: Recorded, head: int | None = None) -> Tensor:
    """‖α_h f_h(x)‖ of one head, or of all heads' summed vectors ‖Σ_h α_h f_h(x)‖ (Kobayashi et al.,
    2020)."""
    return recorded.norms.summed if head is None else recorded.norms.weighted[:, head]


def head_norms(recorded: Recorded, head: int | None = None) -> Tensor:
    """‖α_h f_h(x)‖ averaged over heads: heads that pull in opposite directions do not cancel."""
    return _mean(recorded.norms.weighted) if head is None else recorded.norms.weighted[:, head]


def _mean(by_head: Tensor) -> Tensor:
    """Over heads, of which a pruned layer may have none: then 0."""
    return by_head.sum(dim=1) / max(1, by_head.shape[1])


METHODS: dict[str, Callable[..., Tensor]] = {
    "weights": weights,
    "norms": norms,
    "head-norms": head_norms,
}


# Soft alignments by relevance instead of attention, of the whole model: name of the method → rules.
LRP = {"lrp": "voita", "lrp-epsilon": "epsilon", "lrp-attnlrp": "attnlrp"}


def soft_alignments(
    forcing: TeacherForcing, pairs: list[Pair], evidences: Sequence[Evidence]
) -> Iterator[list[Soft]]:
    """The soft alignments of each pair, one for each evidence."""
    matrices = {
        **_of_attention(forcing, pairs, evidences),
        **_of_relevance(forcing, pairs, evidences),
    }
    by_token = np.stack(
        [_by_token(matrices[e.method, e.layer, e.head], e.step) for e in evidences], axis=1
    )
    for pieces, pair in zip(by_token, pairs, strict=True):
        yield _to_words(pieces, pair, forcing.merges)


def _of_attention(
    forcing: TeacherForcing, pairs: list[Pair], evidences: Sequence[Evidence]
) -> dict[tuple, np.ndarray]:
    """A matrix (B, T, S) for each method, layer and head of the evidences that come from
    attention."""
    wanted = {(e.method, e.layer, e.head) for e in evidences if e.method in METHODS}
    if not wanted:
        return {}
    layers, values = (
        {layer for _, layer, _ in wanted},
        any(method != "weights" for method, _, _ in wanted),
    )
    recording = forcing.recorded(pairs, layers=layers, values=values)
    return {
        (method, layer, head): METHODS[method](recording["cross", layer], head)
        .float()
        .cpu()
        .numpy()
        for method, layer, head in wanted
    }


def _of_relevance(
    forcing: TeacherForcing, pairs: list[Pair], evidences: Sequence[Evidence]
) -> dict[tuple, np.ndarray]:
    """The same for those that come from LRP: |R| of source tokens for each target token's logit."""
    matrices = {}
    for wanted in {(e.method, e.layer, e.head) for e in evidences if e.method in LRP}:
        longest = max(len(side.tokens) for pair in pairs for side in pair[:2])
        bound = len(pairs) * longest  # vectors at once: as many as the batch has tokens
        found = list(
            relevances(forcing, pairs, rules=LRP[wanted[0]], start="reference", max_tokens=bound)
        )
        matrix = np.zeros(
            (
                len(pairs),
                *(max(sizes) for sizes in zip(*(one.source.shape for one in found), strict=True)),
            )
        )
        for row, one in zip(matrix, found, strict=True):
            row[: one.source.shape[0], : one.source.shape[1]] = np.abs(one.source)
        matrices[wanted] = matrix
    return matrices


def _to_words(pieces: np.ndarray, pair: Pair, merges: dict[str, str]) -> list[Soft]:
    """All soft alignments of a pair at once, (E, T, S): NumPy's calls cost more than what they
    compute."""
    columns, source_ids = places_by_word(pair.source)
    rows, target_ids = places_by_word(pair.target)
    pieces_only = target_ids < len(pair.target.text)
    rows, target_ids = rows[pieces_only], target_ids[pieces_only]
    words = to_words(pieces[:, rows[:, None], columns], source_ids, target_ids, **merges)
    missing = len(pair.target.text) - words.shape[1]  # words at the end that no piece spells
    if missing:
        words = np.pad(words, ((0, 0), (0, missing), (0, 0)))
    return [Soft(soft[:, :-1], soft[:, -1]) for soft in words]


def _by_token(matrix: np.ndarray, step: str) -> np.ndarray:
    """(B, T, S) with a row for each step → (B, T - 1, S) with a row for each target token but the
    last, a mark."""
    first = STEPS[step]
    return matrix[:, first : first + matrix.shape[1] - 1]
