"""Who works on the chunks: this process, several processes, or a Ray cluster.

Each engine hands out a few chunks at a time, and yields results as they come. What is finished is
so never behind what is not.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from importlib import import_module
from itertools import islice
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.noise import first_import
from fairseq_normalign.runs.chunks import Chunk, Partial

AHEAD = 2  # chunks that are handed out to each worker at once
RETRIES = 3  # of a chunk whose worker of Ray was lost
CONNECT = 10  # seconds

Results = Iterator[tuple[Chunk, Partial]]
Progress = Callable[[int], object]
Work = Callable[[Chunk, Progress], Partial]
Finished = tuple[Partial, list[str]]  # what another process has made, and the warnings there
Submit = Callable[[Chunk], Future[Finished]]  # gives a chunk to a worker


class Place(NamedTuple):
    """Where a worker runs."""

    number: int | None = None  # among the workers of one machine; None if it is the only one
    threads: int | None = None  # that it may use; None if all


Make = Callable[[Place], Work]  # loads the model; called once for each worker


def run_here(make: Make, chunks: Iterable[Chunk], *, progress: Progress) -> Results:
    """One chunk after the other, in this process."""
    work = make(Place())
    for chunk in chunks:
        yield chunk, work(chunk, progress)


def run_in_processes(
    make: Make, chunks: Iterable[Chunk], *, workers: int, progress: Progress
) -> Results:
    """In several processes of this machine, which share its cores."""
    context = multiprocessing.get_context("spawn")  # threads and CUDA do not survive a fork
    others = set(multiprocessing.active_children())
    places = context.SimpleQueue()  # each worker takes one
    pickled = bytes(ForkingPickler.dumps(make))
    pool = ProcessPoolExecutor(workers, context, _begin, (pickled, places))
    for place in places_of(workers):
        places.put(place)

    def submit(chunk: Chunk) -> Future[Finished]:
        return pool.submit(_work, chunk)

    try:
        for chunk, finished in _as_they_come([submit] * workers, chunks):
            yield chunk, _heard(chunk, finished, progress)
    except BrokenProcessPool:
        raise InputError("a worker has died: out of memory? try fewer --workers") from None
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()  # what it has begun is lost in any case
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _as_they_come(
    workers: Sequence[Submit], chunks: Iterable[Chunk]
) -> Iterator[tuple[Chunk, Finished]]:
    """Results, while each worker has a few chunks."""
    rest = iter(chunks)
    free = deque([*workers] * AHEAD)
    at_work: dict[Future[Finished], tuple[Chunk, Submit]] = {}
    while True:
        for chunk in islice(rest, len(free)):
            submit = free.popleft()
            at_work[submit(chunk)] = chunk, submit
        if not at_work:
            return
        done, _ = wait(at_work, return_when=FIRST_COMPLETED)
        # Those that failed come last: what is finished is not to be lost with them.
        for future in sorted(done, key=lambda future: future.exception() is not None):
            chunk, submit = at_work.pop(future)
            free.append(submit)
            yield chunk, future.result()


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


def _begin(pickled: bytes, places: Any) -> None:
    global _worker
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with first_import():  # what measures are made of may need fairseq
        make = ForkingPickler.loads(pickled)
    _worker = _remote(make, places.get())


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for chunks for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(chunk: Chunk) -> Finished:
    return _worker(chunk)


def _remote(make: Make, place: Place) -> Callable[[Chunk], Finished]:
    """What a worker does in another process, which has no screen of ours.

    Its warnings come back with the result. Models that cannot be loaded are told with the first
    chunk: a worker that fails at once would but be replaced.
    """
    try:
        with first_import():
            loaded: Work | InputError = make(place)
    except InputError as error:
        loaded = error

    def work(chunk: Chunk) -> Finished:
        if isinstance(loaded, InputError):
            raise loaded
        with warnings.catch_warnings(record=True) as told:
            made = loaded(chunk, lambda items: None)
        return made, [str(warning.message) for warning in told]

    return work


_worker: Callable[[Chunk], Finished]  # of this process


@contextlib.contextmanager
def ray_cluster(address: str | None) -> Iterator[None]:
    """A Ray cluster, or a Ray of this machine if no address is named; refuses a wrong address."""
    try:
        ray: Any = import_module("ray")
    except ImportError:
        raise InputError("--engine ray needs Ray: pip install 'fairseq_normalign[ray]'") from None
    host, _, port = (address or "").rpartition(":")
    try:
        if port.isdecimal():  # Ray itself would try for minutes
            name = host.rpartition("/")[2].strip("[]")
            socket.create_connection((name, int(port)), timeout=CONNECT).close()
        silent = {"log_to_driver": False, "include_dashboard": False, "configure_logging": False}
        with _stdout_to_stderr():
            ray.init(address, **silent)
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split("\n")[0].split())
        raise InputError(
            f"Ray at {address or 'this machine'}: {reason}; use the address of a running cluster, "
            "such as auto or HOST:6379"
        ) from None
    try:
        yield
    finally:
        with _stdout_to_stderr():
            ray.shutdown()


def run_on_ray(
    make: Make,
    chunks: Iterable[Chunk],
    *,
    workers: int | None,
    gpu: bool = False,
    progress: Progress,
) -> Results:
    """On a Ray cluster that is connected, which replaces workers and repeats chunks that are lost.

    Args:
        workers: how many at most; by default as many as the cluster has cores, or GPUs.
        gpu: whether each worker needs a GPU.
    """
    ray: Any = import_module("ray")  # whose types know none of this
    resource, options = ("GPU", {"num_gpus": 1}) if gpu else ("CPU", {"num_cpus": 1})
    with _stdout_to_stderr():
        there = int(ray.cluster_resources().get(resource, 1))
        kind = ray.remote(**options, max_restarts=-1, max_task_retries=RETRIES)(_ray_worker(make))
        actors = [kind.remote() for _ in range(max(1, min(workers or there, there)))]
    results = _as_they_come([partial(_submit_to, actor) for actor in actors], chunks)
    while True:
        with _stdout_to_stderr():
            try:
                upcoming = next(results, None)
            except ray.exceptions.RayTaskError as error:
                raise (error.cause if isinstance(error.cause, InputError) else error) from None
            except ray.exceptions.RayError as error:
                reason = " ".join(str(error).split())
                raise InputError(f"Ray has lost its workers: {reason}") from None
        if upcoming is None:
            return
        chunk, finished = upcoming
        yield chunk, _heard(chunk, finished, progress)


def _submit_to(actor: Any, chunk: Chunk) -> Future[Finished]:
    return actor.work.remote(chunk).future()


def _ray_worker(make: Make) -> type:
    """A class of workers that know how to load the models.

    It is part of the class, which the cluster keeps: an argument would be in a store of objects
    that may be lost when a worker is replaced.
    """

    class Worker:
        def __init__(self) -> None:
            self.worker = _remote(make, Place(0, 1))

        def work(self, chunk: Chunk) -> Finished:
            return self.worker(chunk)

    return Worker


def _stdout_to_stderr() -> contextlib.AbstractContextManager:
    """For what Ray prints, of lost workers: stdout is for results."""
    return contextlib.redirect_stdout(sys.stderr)


def _heard(chunk: Chunk, finished: Finished, progress: Progress) -> Partial:
    """What was made, once its warnings and that it is there are told."""
    made, told = finished
    for message in told:
        warnings.warn(message, stacklevel=3)
    progress(len(chunk.items))
    return made
