"""Runs a model over a corpus once and shows every attention to those who measure heads."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fairseq_normalign.attention.contributions import Recorded
from fairseq_normalign.attention.recorder import Recording, check_finite, record
from fairseq_normalign.host.attention_modules import head_counts
from fairseq_normalign.host.batches import numbered_batches
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.names import KINDS, Head
from fairseq_normalign.runs.joins import add_array


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


def by_head(values: Tensor, queries: Tensor) -> Tensor:
    """The values (B, H, T) of some queries (B, T), (H, N)."""
    if values.shape[1] == 0:
        return values.new_empty(0, 0)
    return torch.stack([of_head[queries] for of_head in values.unbind(1)])


class Tally:
    """Sums over a corpus, as the arrays of a partial (``runs.joins``).

    Args:
        arrays: of all chunks, in the end.
        names: of heads, by where they are in the model, where these differ.
    """

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray] | None = None,
        names: Mapping[Head, Head] | None = None,
    ):
        self.arrays, self.names = dict(arrays or {}), names or {}

    def join(self, name: str, array) -> None:
        """Joins an array to the one of this name, in the way that the end of the name tells."""
        add_array(self.arrays, name, np.asarray(array))

    def join_heads(self, of: str, attention: tuple[str, int], rows) -> None:
        """Adds a row for each head of an attention, (H, …)."""
        kind, layer = attention
        self.join(f"{of}.{kind}.{layer}.sum", rows)

    def by_head(self, of: str) -> dict[Head, np.ndarray]:
        """The row of each head."""
        rows = {}
        for name, array in self.arrays.items():
            what, *attention = name.split(".")
            if what == of:
                kind, layer, _ = attention
                for number, row in enumerate(array):
                    head = Head(kind, int(layer), number)
                    rows[self.names.get(head, head)] = row
        return rows

    def add(self, attention: tuple[str, int], sums, cases: int, of: str = "mean") -> None:
        """Adds sums of the attention's heads, (H,), over some more cases.

        Args:
            of: what the mean is of, if there are several.
        """
        sums = np.asarray(sums, dtype=np.float64)
        self.join_heads(of, attention, np.stack([sums, np.full_like(sums, cases)], 1))

    def means(self, of: str = "mean") -> dict[Head, float]:
        """The mean of every head that had a case."""
        means = {}
        for head, (total, cases) in self.by_head(of).items():
            if cases:
                means[head] = float(total / cases)
        return means


PADDING = -2  # in the place of a word


class Seen(NamedTuple):
    """One attention and what it did on a batch."""

    attention: tuple[str, int]  # kind, layer from 0
    recorded: Recorded
    cells: Cells
    pairs: Sequence[Pair]


Watcher = Callable[[Seen], None]


def watch(
    forcing: TeacherForcing,
    pairs: Iterable[Pair],
    watchers: Sequence[Watcher],
    *,
    max_tokens: int = 4000,
) -> None:
    """Shows every attention that has heads, of every batch, to every watcher.

    Memory does not grow with the corpus.
    """
    for numbered in numbered_batches(pairs, max_tokens=max_tokens):
        _watch_batch(forcing, [pair for _, pair in numbered], watchers)


def _watch_batch(forcing: TeacherForcing, batch: list[Pair], watchers: Sequence[Watcher]) -> None:
    forcing.check_lengths(batch)
    with torch.no_grad(), record_heads(forcing) as recording:
        forcing.forward(batch)
    _check_finite(recording, batch)
    device = next(forcing.model.parameters()).device
    kinds = {kind for kind, _ in recording}
    cells_of = {kind: batch_cells(batch, kind, device) for kind in kinds}
    for attention in running_heads(forcing):
        kind, _ = attention
        seen = Seen(attention, recording[attention], cells_of[kind], batch)
        for watcher in watchers:
            watcher(seen)


def _check_finite(recording: Mapping, batch: Sequence[Pair]) -> None:
    """Refuses a model whose values overflow, at the pair."""
    places = [pair.where for pair in batch]
    for recorded in recording.values():
        check_finite(recorded.weights, places)
        check_finite(recorded.norms.summed, places)


def running_heads(forcing: TeacherForcing) -> dict[tuple[str, int], int]:
    """How many heads each attention that runs has, those without any left out."""
    kinds = ("encoder",) if forcing.attention == "encoder" else KINDS
    counts = {}
    for (kind, layer), heads in head_counts(forcing.model).items():
        if heads and kind in kinds:
            counts[kind, layer] = heads
    return counts


@contextmanager
def record_heads(forcing: TeacherForcing, *, values: bool = True) -> Iterator[Mapping]:
    """Records all attentions that have heads (see ``recorder.record``)."""
    layers_of: dict[str, list[int]] = {}
    for kind, layer in running_heads(forcing):
        layers_of.setdefault(kind, []).append(layer)
    with ExitStack() as stack:
        recordings: list[Recording] = []
        for kind, layers in layers_of.items():
            recorder = record(forcing.model, (kind,), layers=layers, values=values)
            recordings.append(stack.enter_context(recorder))
        yield ChainMap(*recordings)


def batch_cells(pairs: Sequence[Pair], name: str, device: torch.device) -> Cells:
    """Which cells of one kind of attention count on a batch."""
    kind = KINDS[name]
    queries = read_words(pairs, kind.queries).to(device)
    keys = queries if kind.self_attention else read_words(pairs, kind.keys).to(device)
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
