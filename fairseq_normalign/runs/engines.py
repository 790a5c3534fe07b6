"""Who works on the chunks: this process, several processes, or a Ray cluster.

Each engine takes chunks as they come, holds a few at a time, and yields results in their order.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import cycle
from typing import Any, NamedTuple, NoReturn

from fairseq_normalign.errors import InputError
from fairseq_normalign.noise import first_import
from fairseq_normalign.runs.chunks import Chunk, Result

ENGINES = ("local", "ray")
AHEAD = 2  # chunks that are handed out to each worker at once
RETRIES = 3  # of a chunk whose worker was lost

Progress = Callable[[int], object]
Work = Callable[..., Result]  # of a chunk, and perhaps progress=


class Place(NamedTuple):
    """Where a worker runs."""

    number: int | None = None  # among the workers of one machine; None if it is the only one
    threads: int | None = None  # that it may use; None if all


Make = Callable[[Place], Work]  # loads the model; called once for each worker


def run_here(
    make: Make, chunks: Iterable[Chunk], *, progress: Progress
) -> Iterator[tuple[Chunk, Result]]:
    """One chunk after the other, in this process."""
    work = make(Place())
    for chunk in chunks:
        yield chunk, work(chunk, progress=progress)


def run_in_processes(
    make: Make, chunks: Iterable[Chunk], *, workers: int, progress: Progress
) -> Iterator[tuple[Chunk, Result]]:
    """In several processes of this machine, which share its cores."""
    context = multiprocessing.get_context("spawn")  # threads and CUDA do not survive a fork
    places = context.SimpleQueue()
    for place in places_of(workers):
        places.put(place)
    pool = ProcessPoolExecutor(workers, context, _begin, (make, places))
    try:
        yield from _in_order(
            chunks,
            lambda chunk: pool.submit(_work, chunk),
            lambda future: future.result(),
            ahead=AHEAD * workers,
            progress=progress,
        )
    except BrokenProcessPool:
        raise InputError(
            "a worker has died, perhaps for want of memory; expected fewer --workers"
        ) from None
    except BaseException:
        for worker in multiprocessing.active_children():
            worker.terminate()  # what it has begun is lost in any case
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def places_of(workers: int) -> list[Place]:
    """Places of workers that do not fight for cores."""
    threads = max(1, available_cores() // workers)
    asked_for = os.environ.get("OMP_NUM_THREADS", "")
    if asked_for.isdecimal():
        threads = max(1, min(threads, int(asked_for)))
    return [Place(number, threads) for number in range(workers)]


def available_cores() -> int:
    """Cores of this machine that we may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _begin(make: Make, places: Any) -> None:
    global _worker
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        with first_import():
            _worker = _Telling(make(places.get()))
    except InputError as error:  # told when the first chunk comes, or the pool would but break
        _worker = _Telling(partial(_fail, error))


def _fail(error: InputError, chunk: Chunk) -> NoReturn:
    raise error


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for chunks for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(chunk: Chunk) -> tuple[Result, list[str]]:
    return _worker(chunk)


class _Telling:
    """Work whose warnings come back with the result: another process has no screen of ours."""

    def __init__(self, work: Work):
        self.work = work

    def __call__(self, chunk: Chunk) -> tuple[Result, list[str]]:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("default")
            result = self.work(chunk)
        return result, [str(warning.message) for warning in told]


_worker: _Telling


def run_on_ray(
    make: Make,
    chunks: Iterable[Chunk],
    *,
    workers: int | None,
    address: str | None,
    gpu: bool = False,
    progress: Progress,
) -> Iterator[tuple[Chunk, Result]]:
    """On a Ray cluster, or on a Ray of this machine if no address is named.

    Ray replaces workers that are lost, and gives their chunks to the new ones.

    Args:
        workers: how many; by default as many as the cluster has cores, or GPUs.
        gpu: whether each worker needs a GPU.
    """
    ray = _ray()
    resources = {"num_gpus": 1} if gpu else {"num_cpus": 1}
    with contextlib.redirect_stdout(sys.stderr):  # where Ray tells of lost workers
        ray.init(
            address=address, log_to_driver=False, include_dashboard=False, configure_logging=False
        )
        try:
            known = ray.put(make)  # held here: a worker that replaces another one needs it again
            worker = ray.remote(max_restarts=-1, max_task_retries=RETRIES, **resources)(_RayWorker)
            if workers is None:
                workers = int(ray.cluster_resources().get("GPU" if gpu else "CPU", 1))
            actors = cycle([worker.remote(known) for _ in range(workers)])
            yield from _in_order(
                chunks,
                lambda chunk: next(actors).work.remote(chunk),
                lambda reference: _fetched(ray, reference),
                ahead=AHEAD * workers,
                progress=progress,
            )
        finally:
            ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise InputError(
            "--engine ray needs Ray; expected pip install 'fairseq_normalign[ray]'"
        ) from None
    return ray


class _RayWorker:
    """Loads the model when it is made, also anew after its machine was lost."""

    def __init__(self, make: Make):
        self.worker = _Telling(make(Place(0, 1)))

    def work(self, chunk: Chunk) -> tuple[Result, list[str]]:
        return self.worker(chunk)


def _fetched(ray: Any, reference: Any) -> tuple[Result, list[str]]:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, InputError):
            raise error.cause from None
        raise
    except ray.exceptions.RayActorError as error:
        raise InputError(f"Ray has lost its workers for good: {error}") from None


def _in_order(
    chunks: Iterable[Chunk],
    submit: Callable[[Chunk], Any],
    fetch: Callable[[Any], tuple[Result, list[str]]],
    *,
    ahead: int,
    progress: Progress,
) -> Iterator[tuple[Chunk, Result]]:
    """Keeps ``ahead`` chunks at work; yields the results of the oldest ones."""
    waiting: deque[tuple[Chunk, Any]] = deque()

    def next_result() -> tuple[Chunk, Result]:
        chunk, pending = waiting.popleft()
        result, told = fetch(pending)
        for message in told:
            warnings.warn(message, stacklevel=3)
        progress(len(chunk.items))
        return chunk, result

    for chunk in chunks:
        waiting.append((chunk, submit(chunk)))
        if len(waiting) >= ahead:
            yield next_result()
    while waiting:
        yield next_result()
