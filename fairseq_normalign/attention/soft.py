"""Soft word alignments as plain data: where they come from, and what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Which decoder row stands for target token j: the one that reads it (align with input, AWI) or the
# one that predicts it (align with output, AWO). Row 0 reads </s> and predicts token 0.
STEPS = {"input": 1, "output": 0}

EOS = ("null", "skip")  # what becomes of a word that takes most from the source's </s>


class Evidence(NamedTuple):
    """Where a soft alignment comes from.

    Layer and head count from 0, a head as in the model that none was removed from. A method of the
    whole model has no layer, and no head means all of them.
    """

    method: str = "norms"
    layer: int | None = 0
    step: str = "input"
    head: int | None = None
    reverse: bool = False  # whether it is of the reverse model
    weight: float = 1.0  # in a mean of several

    @property
    def numbers(self) -> tuple[int | None, int | None]:
        """Layer and head as people count them, from 1."""
        layer, head = (None if place is None else place + 1 for place in (self.layer, self.head))
        return layer, head


class Pieces(NamedTuple):
    """What each target piece takes from each source piece, before they are merged to words."""

    soft: np.ndarray  # (T pieces, S pieces)
    null: np.ndarray  # (T pieces,): the most that one mark of the source, as </s>, gets
    source_ids: np.ndarray  # (S pieces,): the word of each
    target_ids: np.ndarray  # (T pieces,)


class Soft(NamedTuple):
    """What each target word takes from each source word, and from the source's </s>."""

    words: np.ndarray  # (T, S)
    null: np.ndarray  # (T,)
    pieces: Pieces | None = None  # where links are to be taken from pieces
    texts: tuple[Sequence[str], Sequence[str]] | None = (
        None  # the source and target words, if known
    )

    def _repr_html_(self) -> str:
        """What a notebook shows: shares in % of what each target word takes, </s> included."""
        from fairseq_normalign.attention.extract import shares_of
        from fairseq_normalign.results.blocks import Grid
        from fairseq_normalign.results.notebook import html_table

        targets, sources = self.words.shape
        source, target = self.texts or (range(sources), range(targets))  # as in links
        shares = 100 * shares_of(self)
        title = "% of each target word (rows)"
        rows, columns = list(map(str, target)), [*map(str, source), "</s>"]
        return html_table(Grid(title, "", "", rows, columns, shares.tolist(), decimals=0))


# How the pieces of a source and of a target word become one: sum, mean or max.
SUM_AND_MEAN = "sum+mean"  # Garg et al. (2019)
