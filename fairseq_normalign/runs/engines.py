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
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, NoReturn

from fairseq_normalign.errors import InputError
from fairseq_normalign.noise import first_import
from fairseq_normalign.runs.chunks import Chunk, Result

ENGINES = ("local", "ray")
AHEAD = 2  # chunks that are handed out to each worker at once
RETRIES = 3  # of a chunk whose worker was lost
PATIENCE = 60  # seconds without a result of Ray, after which others get a chunk, too
CONNECT = 10  # seconds
TRACKER = "ignore:resource_tracker:UserWarning"

Progress = Callable[[int], object]
Work = Callable[..., Result]  # of a chunk, and perhaps progress=
Finished = tuple[Result, list[str]]  # a result of another process, and the warnings there


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
    others = set(multiprocessing.active_children())
    with _silent_tracker():
        pool = ProcessPoolExecutor(workers, context, _begin, (make, places_of(workers)))
    try:
        for chunk, finished in _as_they_come(pool, chunks, AHEAD * workers):
            yield chunk, _heard(chunk, finished, progress)
    except BrokenProcessPool:
        raise InputError(
            "a worker has died, perhaps for want of memory; expected fewer --workers"
        ) from None
    except BaseException:
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()  # what it has begun is lost in any case
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _silent_tracker() -> Iterator[None]:
    """Python's tracker of semaphores, which starts here, removes those of a dead worker silently.

    It is a process of its own, which has its warnings from our options.
    """
    sys.warnoptions.append(TRACKER)
    try:
        yield
    finally:
        sys.warnoptions.remove(TRACKER)


def _as_they_come(
    pool: ProcessPoolExecutor, chunks: Iterable[Chunk], ahead: int
) -> Iterator[tuple[Chunk, Finished]]:
    """Keeps so many chunks at work."""
    rest = _Readable(chunks)
    at_work: dict[Future[Finished], Chunk] = {}
    while True:
        for chunk in islice(rest, ahead - len(at_work)):
            at_work[pool.submit(_work, chunk)] = chunk
        if not at_work:
            rest.end()
            return
        done, _ = wait(at_work, return_when=FIRST_COMPLETED)
        # Those that failed come last: what is finished is not to be lost with them.
        for future in sorted(done, key=lambda future: future.exception() is not None):
            yield at_work.pop(future), future.result()


class _Readable:
    """The chunks of a corpus as far as it can be read.

    What is at work then is finished first, as if there were one worker.
    """

    def __init__(self, chunks: Iterable[Chunk]):
        self.chunks = iter(chunks)
        self.error: InputError | None = None

    def __iter__(self) -> Iterator[Chunk]:
        return self

    def __next__(self) -> Chunk:
        if self.error is not None:
            raise StopIteration
        try:
            return next(self.chunks)
        except InputError as error:
            self.error = error
            raise StopIteration from None

    def end(self) -> None:
        """Refuses a corpus that could not be read to its end."""
        if self.error is not None:
            raise self.error


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


def _begin(make: Make, places: Sequence[Place]) -> None:
    global _worker
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        with first_import():
            _worker = _Telling(make(_own_place(places)))
    except InputError as error:  # told when the first chunk comes, or the pool would but break
        _worker = _Telling(partial(_fail, error))


def _own_place(places: Sequence[Place]) -> Place:
    """One for each worker: Python numbers them one after the other, as in ``SpawnProcess-2``."""
    number = multiprocessing.current_process().name.rpartition("-")[2]
    return places[int(number) % len(places) if number.isdecimal() else 0]


def _fail(error: InputError, chunk: Chunk) -> NoReturn:
    raise error


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for chunks for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(chunk: Chunk) -> Finished:
    return _worker(chunk)


class _Telling:
    """Work whose warnings come back with the result: another process has no screen of ours."""

    def __init__(self, work: Work):
        self.work = work

    def __call__(self, chunk: Chunk) -> Finished:
        with warnings.catch_warnings(record=True) as told:
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
    with _stdout_to_stderr():
        _connect(ray, address)
    try:
        with _stdout_to_stderr():
            lasting = {"max_restarts": -1, "max_task_retries": RETRIES, **resources}
            worker = ray.remote(**lasting)(_ray_worker(make))
            if workers is None:
                workers = int(ray.cluster_resources().get("GPU" if gpu else "CPU", 1))
            results = _Crew(ray, [worker.remote() for _ in range(workers)]).run(chunks)
        while True:
            with _stdout_to_stderr():
                upcoming = next(results, None)
            if upcoming is None:
                return
            chunk, finished = upcoming
            yield chunk, _heard(chunk, finished, progress)
    finally:
        with _stdout_to_stderr():
            ray.shutdown()


def _stdout_to_stderr() -> contextlib.AbstractContextManager:
    """For what Ray prints, of lost workers: stdout is for results."""
    return contextlib.redirect_stdout(sys.stderr)


def _connect(ray: Any, address: str | None) -> None:
    """Begins to work with a cluster; refuses an address where there is none."""
    host, _, port = (address or "").rpartition(":")
    try:
        if port.isdecimal():  # Ray itself would try for minutes
            name = host.rpartition("/")[2].strip("[]")
            socket.create_connection((name, int(port)), timeout=CONNECT).close()
        ray.init(
            address=address, log_to_driver=False, include_dashboard=False, configure_logging=False
        )
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split("\n")[0].split())
        raise InputError(
            f"Ray at {address or 'this machine'}: {reason}; expected the address of a cluster that "
            "runs, such as auto or HOST:6379"
        ) from None


class _LostError(Exception):
    """A worker, or its machine, is gone."""


class _Crew:
    """Workers of a cluster, of which some may come late, never, or be lost for good.

    Chunks are given to those that are there, and those of a lost worker to others. If nothing comes
    for a while and somebody is free, he gets what others have not finished: the same chunk twice is
    the same result.
    """

    def __init__(self, ray: Any, actors: Sequence[Any]):
        self.ray = ray
        self.size = len(actors)
        self.free: deque[Any] = deque()  # a worker that can take two chunks is there twice
        self.unfinished: dict[int, Chunk] = {}
        self.returned: deque[Chunk] = deque()  # by workers that were lost
        self.losses: Counter[Any] = Counter()  # of each worker and chunk
        # What is awaited: that a worker is there, or a chunk.
        self.awaited: dict[Any, tuple[Any, Chunk | None]] = {}
        for actor in actors:
            self._await(actor)

    def run(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, Finished]]:
        """Results as they come."""
        rest = _Readable(chunks)
        upcoming = next(rest, None)
        while upcoming is not None or self.unfinished:
            while self.free and self.returned:
                again = self.returned.popleft()
                if again.number in self.unfinished:  # nobody else was faster
                    self._give(again, self.free.popleft())
            while self.free and upcoming is not None:
                self.unfinished[upcoming.number] = upcoming
                self._give(upcoming, self.free.popleft())
                upcoming = next(rest, None)
            done, _ = self.ray.wait(list(self.awaited), timeout=PATIENCE)
            if not done:
                self._hurry()
            for reference in done:
                actor, chunk = self.awaited.pop(reference)
                try:
                    finished = _fetched(self.ray, reference)
                except _LostError as error:
                    self._lose(actor, chunk, error)
                    continue
                self.free.extend([actor] * (AHEAD if chunk is None else 1))
                if chunk is not None and self.unfinished.pop(chunk.number, None) is not None:
                    yield chunk, finished
        rest.end()

    def _await(self, actor: Any) -> None:
        """Chunks go to a worker when it is there."""
        self.awaited[actor.ready.remote()] = actor, None

    def _give(self, chunk: Chunk, actor: Any) -> None:
        self.awaited[actor.work.remote(chunk)] = actor, chunk

    def _lose(self, actor: Any, chunk: Chunk | None, error: _LostError) -> None:
        """Awaits the worker anew, unless it was lost too often, and gives its chunk to others."""
        self.free = deque(other for other in self.free if other is not actor)
        is_awaited = any(other is actor for other, _ in self.awaited.values())
        self.losses[actor] += 1
        if not is_awaited and self.losses[actor] <= RETRIES:
            self._await(actor)
        if chunk is not None and chunk.number in self.unfinished:
            self.returned.append(chunk)
            self.losses[chunk.number] += 1
            if self.losses[chunk.number] > RETRIES:
                raise InputError(
                    f"{chunk.lines}: whichever worker of Ray had them was lost: {error}"
                )
        if not self.awaited and not self.free:
            raise InputError(f"Ray has lost its workers for good: {error}")

    def _hurry(self) -> None:
        """After a while in which nothing came."""
        if not self.free and not self.unfinished:
            warnings.warn(
                f"Ray has started none of {self.size} workers for {PATIENCE} seconds: is there a "
                "core, or GPU, that nobody uses?",
                stacklevel=2,
            )
        for chunk in self.unfinished.values():
            holders = [actor for actor, given in self.awaited.values() if given is chunk]
            other = next((actor for actor in self.free if actor not in holders), None)
            if other is not None:
                self.free.remove(other)
                self._give(chunk, other)


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise InputError(
            "--engine ray needs Ray; expected pip install 'fairseq_normalign[ray]'"
        ) from None
    return ray


def _ray_worker(make: Make) -> type:
    """A class of workers that know how to load the model.

    It is part of the class, which the cluster keeps: an argument would be in a store of objects
    that may be lost when a worker is replaced.
    """

    class Worker:
        """Loads the model when it is made, also anew after its machine was lost."""

        def __init__(self) -> None:
            self.worker = _Telling(make(Place(0, 1)))

        def ready(self) -> Finished:
            """Comes back when the model is loaded."""
            return Result(""), []

        def work(self, chunk: Chunk) -> Finished:
            return self.worker(chunk)

    return Worker


def _fetched(ray: Any, reference: Any) -> Finished:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, InputError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        raise _LostError(" ".join(str(error).split())) from None


def _heard(chunk: Chunk, finished: Finished, progress: Progress) -> Result:
    """A result, once its warnings and that it is there are told."""
    result, told = finished
    for message in told:
        warnings.warn(message, stacklevel=3)
    progress(len(chunk.items))
    return result
