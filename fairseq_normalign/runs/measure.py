"""Whatever is measured over a corpus: chunk by chunk, by whoever works, to one result."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, reduce
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol

from fairseq_normalign.runs.chunks import Chunk, Partial, Shard, cut, digest
from fairseq_normalign.runs.engines import Place, Progress, run_here, run_in_processes, run_on_ray
from fairseq_normalign.runs.folder import RunFolder

Load = Callable[[Place], Any]  # the models; called once for each worker
Note = Callable[[Mapping[str, Any]], None]  # hears the notes of each chunk


class Measure(Protocol):
    """One thing that is measured over a corpus. Other processes get a copy."""

    name: str
    pairs_per_chunk: int  # few if a pair takes long, so that workers have something to share

    @property
    def first_pairs(self) -> int:
        """How many of the first pairs ``prepare`` looks at."""

    def prepare(self, models: Any, first: Chunk) -> dict[str, Any]:
        """What is decided once, as JSON holds it; it is kept in the run and sent to workers."""

    def chunk(
        self, models: Any, chunk: Chunk, prepared: Mapping[str, Any], progress: Progress
    ) -> Partial:
        """What is made of one chunk."""

    def merge(self, left: Partial, right: Partial) -> Partial:
        """Of two parts of the corpus together; associative."""

    def finish(self, total: Partial, prepared: Mapping[str, Any]) -> Any:
        """The result; knows no models."""


class Appended:
    """A measure whose partials are written one behind the other, and never merged."""

    def merge(self, left: Partial, right: Partial) -> Partial:
        raise NotImplementedError(f"{left} and {right} are written, and not merged")

    def finish(self, total: Partial, prepared: Mapping[str, Any]) -> Any:
        raise NotImplementedError(f"{total} of {prepared} is written as it comes")


class Job(NamedTuple):
    """A measure, what it is measured on, and what was prepared for it."""

    measure: Measure
    items: Iterable[Any]
    prepared: Mapping[str, Any]
    total: int | None = None  # items, if that is known


class Plan(NamedTuple):
    """How the work is divided. None of it changes the result but the size of chunks."""

    pairs: int | None = None  # of a chunk; by default as many as the measure says
    shard: Shard = Shard()
    workers: int | None = None  # by default one here, and on Ray all that there are
    engine: str = "local"
    ray_address: str | None = None
    gpu: bool = False

    @property
    def is_local(self) -> bool:
        """Whether this process works by itself."""
        return self.engine == "local" and self.workers in (None, 1)

    def chunks(self, job: Job) -> Iterator[Chunk]:
        return cut(job.items, self._size(job), job.measure.name)

    def _size(self, job: Job) -> int:
        return self.pairs or job.measure.pairs_per_chunk

    def left(self, job: Job, folder: RunFolder | None) -> tuple[int | None, int]:
        """How many items this shard has still to do, if that is known, and has done before."""
        size = self._size(job)
        numbers = [] if folder is None else filter(self.shard.has, folder.done(job.measure.name))
        if job.total is None:
            return None, size * len(list(numbers))
        sizes = [max(0, min(size, job.total - number * size)) for number in numbers]
        own = range(self.shard.number * size, job.total, self.shard.of * size)
        return sum(min(size, job.total - first) for first in own) - sum(sizes), sum(sizes)

    def run(
        self, load: Load, jobs: Mapping[str, Job], chunks: Iterable[Chunk], progress: Progress
    ) -> Iterator[tuple[Chunk, Partial]]:
        """The chunks with what was made of them, as they come."""
        measures = {name: (job.measure, job.prepared) for name, job in jobs.items()}
        make = partial(Worker, load, measures)
        if self.engine == "ray":
            return run_on_ray(make, chunks, workers=self.workers, gpu=self.gpu, progress=progress)
        if self.workers is None or self.is_local:
            return run_here(make, chunks, progress=progress)
        return run_in_processes(make, chunks, workers=self.workers, progress=progress)


class Worker:
    """Models, and the measures that chunks may be of."""

    def __init__(self, load: Load, measures: Mapping[str, tuple[Measure, Any]], place: Place):
        self.models, self.measures = load(place), measures

    def __call__(self, chunk: Chunk, progress: Progress) -> Partial:
        measure, prepared = self.measures[chunk.measure]
        return measure.chunk(self.models, chunk, prepared, progress)


def prepared_job(
    measure: Measure,
    models: Any,
    items: Iterable[Any],
    folder: RunFolder | None = None,
    total: int | None = None,
) -> Job:
    """A measure with what it decides on the first items, or has decided in the same folder."""
    rest = iter(items)
    first = list(islice(rest, measure.first_pairs))
    known = None if folder is None else folder.prepared(measure.name)
    if known is None:
        known = measure.prepare(models, Chunk(0, 0, first, measure.name))
        if folder is not None:
            known = folder.prepare(measure.name, {"first": digest(first), **known})
    if folder is not None:
        folder.refuse_other_first(known["first"], first)
    return Job(measure, chain(first, rest), known, total)


class Made(NamedTuple):
    """What came out of a measure, before it is finished."""

    prepared: Mapping[str, Any]
    partials: Iterable[Partial]  # in the order of the chunks

    def result(self, measure: Measure) -> Any:
        """Merges partials as they come: they do not pile up."""
        return measure.finish(reduce(measure.merge, self.partials, Partial()), self.prepared)


def made_in(folder: RunFolder) -> dict[str, Made]:
    """What a run, or all of its shards, have kept of each measure; refuses what is not complete."""
    made = {}
    for name, chunks in folder.ends().items():
        made[name] = Made(folder.prepared(name) or {}, folder.partials(name, chunks))
    return made


def run(
    jobs: Iterable[Job],
    load: Load,
    plan: Plan,
    *,
    note: Note = lambda notes: None,
    progress: Progress = lambda items: None,
) -> Iterator[tuple[str, Partial]]:
    """What is made of each chunk with the name of its measure, in order; nothing is kept."""
    by_name = {job.measure.name: job for job in jobs}
    chunks = chain.from_iterable(map(plan.chunks, by_name.values()))
    for name, made in _in_order(chunks, partial(plan.run, load, by_name, progress=progress)):
        note(made.notes)
        yield name, made


def run_and_keep(
    jobs: Iterable[Job],
    load: Load,
    plan: Plan,
    folder: RunFolder,
    *,
    note: Note = lambda notes: None,
    progress: Progress = lambda items: None,
) -> dict[str, tuple[int, int]]:
    """Keeps what is made of the chunks of the shard; those that are there are not done again.

    Returns how many chunks and items each measure has, for ``RunFolder.finish``.
    """
    by_name = {job.measure.name: job for job in jobs}
    ends = dict.fromkeys(by_name, (0, 0))

    def left() -> Iterator[Chunk]:
        for chunk in chain.from_iterable(map(plan.chunks, by_name.values())):
            chunks, items = ends[chunk.measure]
            ends[chunk.measure] = chunks + 1, items + len(chunk.items)
            if not plan.shard.has(chunk.number):
                continue
            known = folder.has(chunk)
            if known is None:
                yield chunk
            else:
                note(known)

    for chunk, made in plan.run(load, by_name, left(), progress):
        folder.keep(chunk, made)
        note(made.notes)
    return ends


def _in_order(
    chunks: Iterable[Chunk],
    run_all: Callable[[Iterable[Chunk]], Iterator[tuple[Chunk, Partial]]],
) -> Iterator[tuple[str, Partial]]:
    """Results with the names of their measures, in the order of the chunks; the early ones wait."""
    begun: deque[tuple[str, int]] = deque()
    early: dict[tuple[str, int], Partial] = {}

    def noted() -> Iterator[Chunk]:
        for chunk in chunks:
            begun.append((chunk.measure, chunk.number))
            yield chunk

    for chunk, made in run_all(noted()):
        early[chunk.measure, chunk.number] = made
        while begun and begun[0] in early:
            name, _ = begun[0]
            yield name, early.pop(begun.popleft())


def measure_here(
    measure: Measure, models: Any, items: Iterable[Any], progress: Progress | None = None
) -> Any:
    """The result of a measure, in this process; nothing is kept."""
    job = prepared_job(measure, models, items)
    told = progress or (lambda items: None)
    partials = run([job], lambda place: models, Plan(), progress=told)
    return Made(job.prepared, (made for _, made in partials)).result(measure)
