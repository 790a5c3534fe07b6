"""A corpus worked through by whoever there is, and what is finished of it kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from fairseq_normalign.runs.chunks import PAIRS, Chunk, Result, Shard, cut
from fairseq_normalign.runs.engines import (
    Make,
    Progress,
    run_here,
    run_in_processes,
    run_on_ray,
)
from fairseq_normalign.runs.folder import RunFolder

Note = Callable[[dict[str, Any]], None]  # hears the notes of each chunk


class Plan(NamedTuple):
    """How the work is divided. None of it changes the result but the size of chunks."""

    pairs: int = PAIRS  # of a chunk
    shard: Shard = Shard()
    workers: int | None = None  # by default one here, and on Ray all that there are
    engine: str = "local"
    ray_address: str | None = None
    gpu: bool = False

    @property
    def is_local(self) -> bool:
        """Whether this process works by itself."""
        return self.engine == "local" and self.workers in (None, 1)

    def pairs_of(self, chunk: int, total: int | None) -> int:
        """How many pairs a chunk of a corpus of so many has, if the total is known."""
        return self.pairs if total is None else max(0, min(self.pairs, total - chunk * self.pairs))

    def run(
        self, make: Make, chunks: Iterable[Chunk], progress: Progress
    ) -> Iterator[tuple[Chunk, Result]]:
        """The chunks with their results, as they come."""
        if self.engine == "ray":
            return run_on_ray(
                make,
                chunks,
                workers=self.workers,
                address=self.ray_address,
                gpu=self.gpu,
                progress=progress,
            )
        if self.workers is None or self.is_local:
            return run_here(make, chunks, progress=progress)
        return run_in_processes(make, chunks, workers=self.workers, progress=progress)


def run_through(
    items: Iterable[Any], make: Make, plan: Plan, *, note: Note, progress: Progress
) -> Iterator[str]:
    """The output, chunk after chunk; nothing is kept."""
    for result in _in_order(plan.run(make, cut(items, plan.pairs), progress)):
        note(result.notes)
        yield result.body


def _in_order(results: Iterable[tuple[Chunk, Result]]) -> Iterator[Result]:
    """Results of chunks 0, 1, 2, …; those that come too early wait."""
    early: dict[int, Result] = {}
    wanted = 0
    for chunk, result in results:
        early[chunk.number] = result
        while wanted in early:
            yield early.pop(wanted)
            wanted += 1


def run_and_keep(
    items: Iterable[Any],
    make: Make,
    plan: Plan,
    folder: RunFolder,
    *,
    note: Note,
    progress: Progress,
) -> None:
    """Keeps the output of every chunk of the shard; those that are done are not done again."""
    chunks = pairs = 0

    def left() -> Iterator[Chunk]:
        nonlocal chunks, pairs
        for chunk in cut(items, plan.pairs):
            chunks += 1
            pairs += len(chunk.items)
            if not plan.shard.has(chunk.number):
                continue
            known = folder.has(chunk)
            if known is None:
                yield chunk
            else:
                note(known)

    for chunk, result in plan.run(make, left(), progress):
        folder.keep(chunk, result)
        note(result.notes)
    folder.finish(plan.shard, chunks, pairs)
