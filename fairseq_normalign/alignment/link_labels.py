"""What an alignment head learns from: which source tokens each row of a decoder is linked to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from fairseq_normalign.text.links import Link


def row_labels(
    links: Iterable[Link],
    source_ids: Sequence[int],
    target_ids: Sequence[int],
    *,
    null_weight: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Links of words → links of the decoder's rows, each row being that of the token it reads.

    Row t reads token t − 1; row 0 reads what starts a sentence. Every piece of a word is linked to
    every piece of the words that the word is linked to. A word without links is linked to the marks
    of the source, as </s>.

    Args:
        links: of words, (source, target).
        source_ids: the word of each source token, -1 for marks.
        target_ids: the word of each target token, -1 for marks; the last one is a mark.
        null_weight: what a row counts whose word has no links. Others count 1; rows that read a
            mark, or whose links are to words without tokens, count 0.

    Returns:
        Links (T, S) and weights (T,).
    """
    sources = max(source_ids, default=-1) + 1
    targets = max(target_ids, default=-1) + 1
    of_words = np.zeros((targets + 1, sources + 1), dtype=bool)  # the last ones are marks
    for source, target in links:
        of_words[target, source] = True
    unlinked = ~of_words.any(axis=1)
    of_words[unlinked, -1] = True
    weights = np.where(unlinked, null_weight, 1.0)
    weights[-1] = 0
    rows = np.array([-1, *target_ids[:-1]])
    labels = of_words[rows][:, np.array(source_ids)]
    return labels, (weights[rows] * labels.any(axis=1)).astype(np.float32)
