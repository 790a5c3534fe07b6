"""What every attention of a model does on a corpus, batch by batch, and sums over it by head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fairseq_normalign.attention.contributions import Recorded
from fairseq_normalign.attention.recorder import Recording, check_finite, recorded
from fairseq_normalign.host.attention_modules import Name, head_names
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.names import KINDS, Head
from fairseq_normalign.runs.joins import add_array

Known = Mapping[str, Any]  # what was prepared, as JSON holds it
PADDING = -2  # in the place of a word


class Cells(NamedTuple):
    """What the queries of a batch may look at.

    Marks are </s>, the decoder's start and language tokens.
    """

    visible: Tensor  # the query is a token and sees the key, (B, T, S)
    words: Tensor  # of these, the key is no mark, (B, T, S)
    queries: Tensor  # the query is a token and no mark, (B, T)


def cells(queries: Tensor, keys: Tensor, *, causal: bool = False) -> Cells:
    """The cells of a batch that is padded on the right.

    Args:
        queries: the word of each query, (B, T): -1 for marks, -2 for padding.
        keys: the word of each key, (B, S).
        causal: whether a query sees only itself and what is before it, as in the decoder.
    """
    visible = queries.ge(-1).unsqueeze(2) & keys.ge(-1).unsqueeze(1)
    if causal:
        visible = visible.tril()
    return Cells(visible, visible & keys.ge(0).unsqueeze(1), queries.ge(0))


def maxima(weights: Tensor, allowed: Tensor) -> Tensor:
    """The key with most weight among those allowed, (B, H, T); ties to the first.

    Rows without any give 0.

    Args:
        weights: (B, H, T, S), not negative.
        allowed: (B, T, S).
    """
    return weights.masked_fill(~allowed.unsqueeze(1), -1).argmax(-1)


def choosing(seen: Cells) -> Tensor:
    """Queries whose maximum says something, (B, T): words that see two words at least."""
    return seen.queries & (seen.words.sum(-1) > 1)


def summed(values: Tensor, queries: Tensor) -> Tensor:
    """Σ over some queries, (B, T), of values, (B, H, T), and how many they are: (H, 2)."""
    sums = (values * queries.unsqueeze(1)).sum((0, 2)).double()
    return torch.stack([sums, queries.sum().expand_as(sums)], 1).cpu()


class Tally:
    """Sums over a corpus, as the arrays of a partial (``runs.joins``).

    Args:
        known: what was prepared, as JSON holds it; its ``heads`` are those of the model, by the
            names they had before any was removed, in its order.
        arrays: of all chunks, in the end.
    """

    def __init__(self, known: Known, arrays: Mapping[str, np.ndarray] | None = None):
        self.known, self.arrays = known, dict(arrays or {})
        self.heads = [Head(*head) for head in known["heads"]]

    def of_kind(self, kind: str) -> list[Head]:
        """The heads of one kind of attention."""
        return [head for head in self.heads if head.kind == kind]

    def join(self, name: str, array) -> None:
        """Joins an array to the one of this name, in the way that the end of the name tells."""
        add_array(self.arrays, name, np.asarray(array))

    def add(self, of: str, attention: Name, rows) -> None:
        """Adds a row for each head of an attention, (H, …): for a mean, a sum and its cases.

        Args:
            of: what the rows are of.
        """
        kind, layer = attention
        self.join(f"{of}.{kind}.{layer}.sum", rows)

    def add_cases(self, of: str, attention: Name, values) -> None:
        """Adds to means the values that each head of an attention has in some cases, (H, N)."""
        values = np.asarray(values, dtype=np.float64)
        cases = np.full(len(values), values.shape[1])
        self.add(of, attention, np.stack([values.sum(1), cases], 1))

    def rows(self, of: str) -> dict[Head, np.ndarray]:
        """The row of each head."""
        rows: dict[Head, np.ndarray] = {}
        for (kind, layer), heads in groupby(self.heads, key=lambda head: head[:2]):
            name = f"{of}.{kind}.{layer}.sum"
            if name in self.arrays:
                rows.update(zip(heads, self.arrays[name], strict=True))
        return rows

    def means(self, of: str) -> dict[Head, float]:
        """The mean of every head that had a case."""
        rows = self.rows(of).items()
        return {head: float(total / cases) for head, (total, cases) in rows if cases}


def running_heads(forcing: TeacherForcing) -> list[Head]:
    """The heads that run, by the names they had before any was removed."""
    names = head_names(forcing.model)
    return [name for name in names if forcing.attention != "encoder" or name.kind == "encoder"]


def recorded_heads(forcing: TeacherForcing, batch: list[Pair], *, values: bool) -> Recording:
    """What all attentions that run did on a batch (see ``recorder.record``).

    A model whose values overflow is refused, at the pair.
    """
    kinds = {head.kind for head in running_heads(forcing)}
    recording = recorded(forcing, batch, kinds, values=values)
    places = [pair.where for pair in batch]
    for of_attention in recording.values():
        check_finite(of_attention.weights, places)
        if values:
            check_finite(of_attention.norms.summed, places)
    return recording


class Seen(NamedTuple):
    """One attention and what it did on a batch."""

    attention: Name
    recorded: Recorded
    cells: Cells


def seen_attentions(forcing: TeacherForcing, batch: list[Pair]) -> list[Seen]:
    """What every attention that runs did on a batch, and the cells that count there."""
    device = next(forcing.model.parameters()).device
    recording = recorded_heads(forcing, batch, values=True)
    cells_of = {kind: batch_cells(batch, kind, device) for kind, _ in recording}
    return [Seen(name, recording[name], cells_of[name[0]]) for name in recording]


def batch_cells(pairs: Sequence[Pair], name: str, device: torch.device) -> Cells:
    """Which cells of one kind of attention count on a batch."""
    kind = KINDS[name]
    queries = read_words(pairs, kind.queries).to(device)
    keys = read_words(pairs, kind.keys).to(device) if name == "cross" else queries
    return cells(queries, keys, causal=kind.causal)


def read_words(pairs: Sequence[Pair], side: str) -> Tensor:
    """The word of each token that encoder or decoder reads, (B, T); -1 for marks.

    The decoder reads one behind.
    """
    if side == "source":
        words = [pair.source.words for pair in pairs]
    else:
        words = [[-1, *pair.target.words[:-1]] for pair in pairs]
    sentences = [torch.tensor(of_sentence) for of_sentence in words]
    return pad_sequence(sentences, batch_first=True, padding_value=PADDING)
