"""Whatever is measured over a corpus: chunk by chunk, by whoever works, to one result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain, count, islice
from typing import Any, NamedTuple, Protocol, runtime_checkable

from fairseq_normalign.errors import InputError
from fairseq_normalign.options import option
from fairseq_normalign.runs.chunks import Chunk, Partial, Shard, cut, digest
from fairseq_normalign.runs.engines import (
    Place,
    Progress,
    Results,
    Work,
    run_here,
    run_in_processes,
    run_on_ray,
)
from fairseq_normalign.runs.folder import RunFolder
from fairseq_normalign.runs.joins import merged

Load = Callable[[Place], Any]  # the models; called once for each worker
Note = Callable[[Mapping[str, Any]], None]  # hears the notes of each chunk


class Measure(Protocol):
    """One thing that is measured over a corpus. Other processes get a copy.

    What it makes of one chunk is written behind that of the last one, unless it is ``Summed``.
    """

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


@runtime_checkable
class Summed(Measure, Protocol):
    """A measure whose arrays are joined as their names say (see ``joins``)."""

    def finish(self, total: Partial, prepared: Mapping[str, Any]) -> Any:
        """The result; knows no models."""


class Job(NamedTuple):
    """A measure, what it is measured on, and what was prepared for it."""

    measure: Measure
    items: Iterable[Any]
    prepared: Mapping[str, Any]
    total: int | None = None  # items, if that is known


choice = partial(option, group="large corpora")


@dataclass(frozen=True)
class Plan:
    """How the work is divided. None of it changes the result but the size of chunks."""

    restart: bool = choice(
        False,
        "start from the beginning instead of resuming an interrupted run",
    )
    workers: int | None = choice(None, "N  processes, or GPUs (default: 1)")
    num_shards: int = choice(
        1,
        "N  divide the corpus among N commands; then: normalign merge OUTPUT",
    )
    shard_id: int = choice(0, "K  the shard of this command, from 0")
    engine: str = choice("local", "local|ray  ray: workers of a Ray cluster")
    ray_address: str | None = choice(
        None, "ADDRESS  address of the Ray cluster (default: start Ray here)"
    )
    chunk: int | None = choice(
        None,
        "N  pairs in a chunk, which is saved when it is done (default: 1000; fewer for slow "
        "measures)",
    )
    gpu: bool = False

    @property
    def shard(self) -> Shard:
        return Shard(self.shard_id, self.num_shards)

    @property
    def is_local(self) -> bool:
        """Whether this process works by itself."""
        return self.engine == "local" and self.workers in (None, 1)

    def chunks(self, jobs: Iterable[Job]) -> Iterator[Chunk]:
        """Those of all jobs, one after the other."""
        places = count()
        for job in jobs:
            size = self.chunk or job.measure.pairs_per_chunk
            for chunk in cut(job.items, size, job.measure.name):
                yield chunk._replace(place=next(places))

    def run(
        self, load: Load, jobs: Mapping[str, Job], chunks: Iterable[Chunk], progress: Progress
    ) -> Results:
        """The chunks with what was made of them, as they come."""
        measures = {name: (job.measure, job.prepared) for name, job in jobs.items()}
        make = partial(worker, load, measures)
        if self.engine == "ray":
            return run_on_ray(make, chunks, workers=self.workers, gpu=self.gpu, progress=progress)
        if self.workers is None or self.is_local:
            return run_here(make, chunks, progress=progress)
        return run_in_processes(make, chunks, workers=self.workers, progress=progress)


def worker(load: Load, measures: Mapping[str, tuple[Measure, Any]], place: Place) -> Work:
    """Loads the models, and returns what makes a partial of a chunk of any of the measures."""
    models = load(place)

    def work(chunk: Chunk, progress: Progress) -> Partial:
        measure, prepared = measures[chunk.measure]
        return measure.chunk(models, chunk, prepared, progress)

    return work


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
    known = folder.prepared(measure.name) if folder else None
    if known is None:
        known = measure.prepare(models, Chunk(0, 0, first, measure.name))
        if folder:
            known = folder.prepare(measure.name, {"first": digest(first), **known})
    if folder and known["first"] != digest(first):
        raise InputError(
            f"the first {len(first)} pairs are others than those on which this run was decided; "
            "use the same text, or --restart"
        )
    return Job(measure, chain(first, rest), known, total)


class Made(NamedTuple):
    """What came out of a measure, before it is finished."""

    prepared: Mapping[str, Any]
    partials: Iterable[Partial]  # in the order of the chunks

    def result(self, measure: Summed) -> Any:
        """Joins partials as they come: they do not pile up."""
        return measure.finish(reduce(merged, self.partials, Partial()), self.prepared)


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
    folder: RunFolder | None = None,
    *,
    note: Note = lambda notes: None,
    progress: Progress = lambda items: None,
) -> Iterator[tuple[str, Partial]]:
    """What is made of each chunk with the name of its measure.

    Without a folder, in order, and nothing is kept. With one, it is kept there as it comes: chunks
    of the shard that are there are not done again.
    """
    by_name = {job.measure.name: job for job in jobs}
    chunks = plan.chunks(by_name.values())
    if folder is None:
        results = _in_order(plan.run(load, by_name, chunks, progress))
    else:
        folder.counted |= dict.fromkeys(by_name, (0, 0))
        left = _left(chunks, plan.shard, folder, note, progress)
        results = plan.run(load, by_name, left, progress)
    for chunk, made in results:
        if folder is not None:
            folder.keep(chunk, made)
        note(made.notes)
        yield chunk.measure, made


def _left(
    chunks: Iterable[Chunk], shard: Shard, folder: RunFolder, note: Note, progress: Progress
) -> Iterator[Chunk]:
    """The chunks that the shard has still to do."""
    for chunk in chunks:
        folder.count(chunk)
        if not shard.has(chunk.number):
            continue
        known = folder.has(chunk)
        if known is None:
            yield chunk
        else:
            note(known)
            progress(len(chunk.items))
            folder.done_before += len(chunk.items)


def _in_order(results: Results) -> Results:
    """Results in the order of the chunks; the early ones wait."""
    early: dict[int, tuple[Chunk, Partial]] = {}
    upcoming = 0
    for chunk, made in results:
        early[chunk.place] = chunk, made
        while upcoming in early:
            yield early.pop(upcoming)
            upcoming += 1


def measure_here(
    measure: Summed, models: Any, items: Iterable[Any], progress: Progress | None = None
) -> Any:
    """The result of a measure, in this process; nothing is kept."""
    job = prepared_job(measure, models, items)
    told = progress or (lambda items: None)
    partials = run([job], lambda place: models, Plan(), progress=told)
    return Made(job.prepared, (made for _, made in partials)).result(measure)
