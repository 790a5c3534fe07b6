"""A batch of sentence pairs → soft word alignments, as many kinds of them as asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from torch import Tensor

from fairseq_normalign.attention.extract import to_words
from fairseq_normalign.attention.methods import Batch, check_head_method, method_of
from fairseq_normalign.attention.recorder import check_finite, recorded, recorded_blocks
from fairseq_normalign.attention.soft import STEPS, SUM_AND_MEAN, Evidence, Merges, Pieces, Soft
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing, places_by_word
from fairseq_normalign.names import KINDS


def soft_alignments(
    forcing: TeacherForcing,
    pairs: list[Pair],
    evidences: Sequence[Evidence],
    merges: Merges = SUM_AND_MEAN,
    *,
    keep_pieces: Collection[Evidence] = (),
) -> Iterator[list[Soft]]:
    """The soft alignments of each pair, one for each evidence, from one forward pass.

    Methods that run the model by themselves add their own passes.

    Args:
        keep_pieces: evidences that have matrices of pieces beside those of words.
    """
    matrices = _matrices(forcing, pairs, evidences)
    for place, pair in enumerate(pairs):
        pieces = np.stack([matrix[place] for matrix in matrices])  # (E, T, S)
        queries, keys = len(pair.target.tokens) - 1, len(pair.source.tokens)
        check_finite(pieces[None, :, :queries, :keys], [pair.where])
        softs = _to_words(pieces, pair, merges)
        for number, evidence in enumerate(evidences):
            if evidence in keep_pieces:
                softs[number] = softs[number]._replace(pieces=_of_words(pieces[number], pair))
        yield softs


def _matrices(
    forcing: TeacherForcing, pairs: list[Pair], evidences: Sequence[Evidence]
) -> list[np.ndarray]:
    """For each evidence (B, T - 1, S): a row for each target token but the last, a mark."""
    batch = _recorded(forcing, pairs, evidences)
    targets = max(len(pair.target.tokens) for pair in pairs)
    sources = max(len(pair.source.tokens) for pair in pairs)
    computed: dict[tuple, np.ndarray] = {}
    matrices = []
    for method, layer, step, head in evidences:
        if (method, layer, head) not in computed:
            place = None
            if layer is not None and head is not None:
                check_head_method(method)
                place = forcing.head_place(layer, head)
            matrix = method_of(method).compute(batch, layer, place)
            if isinstance(matrix, Tensor):
                matrix = matrix.float().cpu().numpy()
            computed[method, layer, head] = matrix
        first = STEPS[step]
        matrices.append(computed[method, layer, head][:, first : first + targets - 1, :sources])
    return matrices


def _recorded(forcing: TeacherForcing, pairs: list[Pair], evidences: Sequence[Evidence]) -> Batch:
    """The batch with what all methods together need of the attention."""
    needs: set[str] = set()
    layers: set[int] = set()
    for evidence in evidences:
        needs |= method_of(evidence.method).needs
        if evidence.layer is not None:
            layers.add(evidence.layer)
    if not needs:
        return Batch(forcing, pairs, {})
    if "blocks" not in needs:
        recording = recorded(forcing, pairs, layers=layers, values="values" in needs)
        return Batch(forcing, pairs, recording)
    if "all blocks" in needs:
        blocks = recorded_blocks(forcing, pairs, tuple(KINDS))
    else:
        blocks = recorded_blocks(forcing, pairs, (forcing.attention,), layers=layers)
    recording = {name: block.recorded for name, block in blocks.items()}
    return Batch(forcing, pairs, recording, blocks)


def _of_words(matrix: np.ndarray, pair: Pair) -> Pieces:
    """The rows and columns of a matrix of tokens that are pieces of words; marks are ``null``."""
    columns, source_ids = places_by_word(pair.source)
    rows, target_ids = places_by_word(pair.target)
    in_source = source_ids < len(pair.source.text)
    in_target = target_ids < len(pair.target.text)
    of_target = matrix[rows[in_target]]
    marks = of_target[:, columns[~in_source]]
    return Pieces(
        of_target[:, columns[in_source]],
        marks.max(axis=1, initial=0),
        source_ids[in_source],
        target_ids[in_target],
    )


def _to_words(pieces: np.ndarray, pair: Pair, merges: Merges) -> list[Soft]:
    """All soft alignments of a pair at once: NumPy's calls cost more than what they compute."""
    columns, source_ids = places_by_word(pair.source)
    rows, target_ids = places_by_word(pair.target)
    of_words = target_ids < len(pair.target.text)
    rows, target_ids = rows[of_words], target_ids[of_words]
    words = to_words(pieces[:, rows[:, None], columns], source_ids, target_ids, merges)
    missing = len(pair.target.text) - words.shape[1]  # words at the end that no piece spells
    if missing:
        words = np.pad(words, ((0, 0), (0, missing), (0, 0)))
    texts = pair.source.text, pair.target.text
    return [Soft(soft[:, :-1], soft[:, -1], texts=texts) for soft in words]
