"""Batches of pairs of similar length to the model, results out in input order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from fairseq_normalign.host.pairs import Pair

WINDOW = 2_000  # pairs held in memory at once, to be sorted by length

Result = TypeVar("Result")


def map_batches(
    pairs: Iterable[Pair],
    run: Callable[[list[Pair]], Iterable[Result]],
    *,
    max_tokens: int,
    window: int = WINDOW,
) -> Iterator[Result]:
    """Applies ``run`` to batches of at most ``max_tokens`` (padding included); yields its results
    in input order."""
    ready: dict[int, Result] = {}
    due = 0
    for batch in numbered_batches(pairs, max_tokens=max_tokens, window=window):
        numbers, members = zip(*batch, strict=True)
        ready.update(zip(numbers, run(list(members)), strict=True))
        while due in ready:
            yield ready.pop(due)
            due += 1


def numbered_batches(
    pairs: Iterable[Pair], *, max_tokens: int, window: int = WINDOW
) -> Iterator[list[tuple[int, Pair]]]:
    """Batches of (place in the input, pair) of similar length, from one window of the input after
    the other."""
    numbered = enumerate(pairs)
    while True:
        chunk = list(islice(numbered, window))
        if not chunk:
            return
        for batch in batches(
            [max(len(p.source.tokens), len(p.target.tokens)) for _, p in chunk], max_tokens
        ):
            yield [chunk[index] for index in batch]


def batches(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Indices of sentences of similar length, at most ``max_tokens`` padded tokens together (or one
    sentence)."""
    batch: list[int] = []
    for index in sorted(
        range(len(lengths)), key=lengths.__getitem__
    ):  # stable: the same batches every time
        if batch and lengths[index] * (len(batch) + 1) > max_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
