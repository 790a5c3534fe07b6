"""A batch of sentence pairs → soft word alignments, as many kinds of them as asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cache

import numpy as np
from torch import Tensor

from fairseq_normalign.attention.extract import row_shares, to_words
from fairseq_normalign.attention.methods import (
    ALL_BLOCKS,
    BLOCKS,
    OWN_PASS,
    VALUES,
    Batch,
    check_head_method,
    method_of,
)
from fairseq_normalign.attention.recorder import check_finite, recorded, recorded_blocks
from fairseq_normalign.attention.soft import STEPS, SUM_AND_MEAN, Evidence, Pieces, Soft
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing, places_by_word
from fairseq_normalign.names import KINDS


def soft_alignments(
    forcing: TeacherForcing,
    pairs: list[Pair],
    evidences: Sequence[Evidence],
    merges: str = SUM_AND_MEAN,
    *,
    keep_pieces: Collection[Evidence] = (),
) -> Iterator[list[Soft]]:
    """The soft alignments of each pair, one for each evidence, from one forward pass.

    Methods that run the model by themselves add their own passes.

    Args:
        keep_pieces: evidences that have matrices of pieces beside those of words.
    """
    for pair, words, read, source_ids, target_ids in _by_word(forcing, pairs, evidences, merges):
        in_source = source_ids < len(pair.source.text)  # the others are marks
        softs = []
        for evidence, of_words, of_tokens in zip(evidences, words, read, strict=True):
            pieces = None
            if evidence in keep_pieces:
                null = of_tokens[:, ~in_source].max(axis=1, initial=0)
                of_pieces = of_tokens[:, in_source]
                pieces = Pieces(of_pieces, null, source_ids[in_source], target_ids)
            texts = pair.source.text, pair.target.text
            softs.append(Soft(of_words[:, :-1], of_words[:, -1], pieces, texts))
        yield softs


def share_matrices(
    forcing: TeacherForcing,
    pairs: list[Pair],
    evidences: Sequence[Evidence],
    merges: str = SUM_AND_MEAN,
    *,
    null: bool = True,
) -> Iterator[np.ndarray]:
    """The same as shares of what each target word takes, (E, T, S) for each pair.

    Args:
        null: whether what </s> gets is part of what a word takes.
    """
    for _, words, *_ in _by_word(forcing, pairs, evidences, merges):
        yield row_shares(words[..., :-1], words[..., -1] if null else None)


def _by_word(
    forcing: TeacherForcing, pairs: list[Pair], evidences: Sequence[Evidence], merges: str
) -> Iterator[tuple[Pair, np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Each pair with all evidences of words, (E, T, S + 1), </s> last, and the same of pieces.

    Then come the words of source pieces and of target pieces.
    """
    matrices = _matrices(forcing, pairs, evidences)
    for place, pair in enumerate(pairs):
        tokens = np.stack([matrix[place] for matrix in matrices])  # (E, T, S)
        queries, keys = len(pair.target.tokens) - 1, len(pair.source.tokens)
        check_finite(tokens[None, :, :queries, :keys], [pair.where])
        columns, source_ids = places_by_word(pair.source)
        rows, target_ids = places_by_word(pair.target)
        in_target = target_ids < len(pair.target.text)
        rows, target_ids = rows[in_target], target_ids[in_target]
        read = tokens[:, rows[:, None], columns]
        # All evidences at once: NumPy's calls cost more than what they compute.
        words = to_words(read, source_ids, target_ids, merges)
        missing = len(pair.target.text) - words.shape[1]  # words at the end that no piece spells
        if missing:
            words = np.pad(words, ((0, 0), (0, missing), (0, 0)))
        yield pair, words, read, source_ids, target_ids


def _matrices(
    forcing: TeacherForcing, pairs: list[Pair], evidences: Sequence[Evidence]
) -> list[np.ndarray]:
    """For each evidence (B, T - 1, S): a row for each target token but the last, a mark."""
    batch = _recorded(forcing, pairs, evidences)
    targets = max(len(pair.target.tokens) for pair in pairs)
    sources = max(len(pair.source.tokens) for pair in pairs)

    @cache  # steps of an evidence are rows of one matrix
    def matrix_of(method: str, layer: int | None, head: int | None) -> np.ndarray:
        place = None
        if layer is not None and head is not None:
            check_head_method(method)
            place = forcing.head_place(layer, head)
        matrix = method_of(method).compute(batch, layer, place)
        return matrix.float().cpu().numpy() if isinstance(matrix, Tensor) else matrix

    matrices = []
    for evidence in evidences:
        matrix = matrix_of(evidence.method, evidence.layer, evidence.head)
        first = STEPS[evidence.step]
        matrices.append(matrix[:, first : first + targets - 1, :sources])
    return matrices


def _recorded(forcing: TeacherForcing, pairs: list[Pair], evidences: Sequence[Evidence]) -> Batch:
    """The batch with what all methods together need of the attention."""
    needs = max(method_of(evidence.method).needs for evidence in evidences)
    layers = {evidence.layer for evidence in evidences if evidence.layer is not None}
    if needs == OWN_PASS:
        return Batch(forcing, pairs, {})
    kinds = (forcing.attention,)
    if needs < BLOCKS:
        recording = recorded(forcing, pairs, kinds, layers=layers, values=needs >= VALUES)
        return Batch(forcing, pairs, recording)
    if needs == ALL_BLOCKS:
        blocks = recorded_blocks(forcing, pairs, tuple(KINDS), until=max(layers))
    else:
        blocks = recorded_blocks(forcing, pairs, kinds, layers=layers)
    recording = {name: block.recorded for name, block in blocks.items()}
    return Batch(forcing, pairs, recording, blocks)
