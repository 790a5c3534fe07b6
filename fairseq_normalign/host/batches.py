"""Batches of pairs of similar length to the model, results out in input order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from fairseq_normalign.host.pairs import Pair

WINDOW = 2_000  # pairs held in memory at once, to be sorted by length

Result = TypeVar("Result")
Progress = Callable[[int], object]  # called with the number of pairs that are finished


def map_batches(
    pairs: Iterable[Pair],
    run: Callable[[list[Pair]], Iterable[Result]],
    *,
    max_tokens: int,
    window: int = WINDOW,
    progress: Progress | None = None,
) -> Iterator[Result]:
    """Applies ``run`` to batches of pairs; yields its results in input order.

    Args:
        max_tokens: of a batch, padding included.
        window: how many pairs are sorted by length, and held, at a time.
        progress: called with the size of each batch that is done, e.g. ``bar.update``.
    """
    ready: dict[int, Result] = {}
    due = 0
    numbered = numbered_batches(pairs, max_tokens=max_tokens, window=window, progress=progress)
    for batch in numbered:
        numbers, members = zip(*batch, strict=True)
        ready.update(zip(numbers, run(list(members)), strict=True))
        while due in ready:
            yield ready.pop(due)
            due += 1


def numbered_batches(
    pairs: Iterable[Pair],
    *,
    max_tokens: int,
    window: int = WINDOW,
    progress: Progress | None = None,
) -> Iterator[list[tuple[int, Pair]]]:
    """Batches of (place in the input, pair) of similar length, one window after the other.

    A batch is done, and ``progress`` told of it, when the next one is asked for.
    """
    numbered = enumerate(pairs)
    while chunk := list(islice(numbered, window)):
        lengths = [pair.length for _, pair in chunk]
        for batch in batches(lengths, max_tokens):
            yield [chunk[index] for index in batch]
            if progress is not None:
                progress(len(batch))


def batches(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Indices of sentences of similar length, at most ``max_tokens`` together with padding.

    A sentence that is longer comes alone. The sort is stable: the batches are always the same.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and lengths[index] * (len(batch) + 1) > max_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
