"""The same results, in the same order, whoever works."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.runs.chunks import Result, Shard, cut
from fairseq_normalign.runs.engines import _Crew, _own_place, places_of
from fairseq_normalign.runs.folder import RunFolder
from fairseq_normalign.runs.plan import Plan, run_and_keep, run_through
from tests.conftest import ROOT

LINES = [f"line {number}" for number in range(23)]


class Shout:
    """Work on a chunk; on some it fails, warns, or dies."""

    def __init__(self, place):
        self.place = place

    def __call__(self, chunk, progress=None):
        for item in chunk.items:
            if item == "wrong":
                raise InputError(f"{chunk.lines}: wrong")
            if item == "odd":
                warnings.warn("that is odd", stacklevel=1)
            if item == "old":
                warnings.warn("that is old", DeprecationWarning, stacklevel=1)
            if item.startswith("die ") and not Path(item[4:]).exists():
                Path(item[4:]).touch()
                os.kill(os.getpid(), signal.SIGKILL)
        if progress is not None:
            progress(len(chunk.items))
        body = "".join(f"{item.removeprefix('die ').upper()}\n" for item in chunk.items)
        return Result(body, {"first": chunk.first})


def load(known, place):
    """What a worker is made of may be large, as a lexicon is."""
    assert len(known) == len(KNOWN)
    return Shout(place)


KNOWN = "x" * 1_000_000


def through(lines, plan):
    notes, done = [], []
    make = partial(load, KNOWN)
    bodies = list(run_through(lines, make, plan, note=notes.append, progress=done.append))
    assert [note["first"] for note in notes] == list(range(0, len(lines), plan.pairs))
    assert sum(done) == len(lines)
    return "".join(bodies)


PLANS = {
    "here": Plan(pairs=4),
    "processes": Plan(pairs=4, workers=2),
    "ray": Plan(pairs=4, workers=2, engine="ray"),
}


@pytest.fixture(params=PLANS)
def plan(request):
    if request.param == "ray":
        pytest.importorskip("ray", reason="Ray is not installed: pip install .[ray]")
    return PLANS[request.param]


def test_results_come_in_order(plan):
    assert through(LINES, plan) == "".join(f"{line.upper()}\n" for line in LINES)


def test_bad_input_ends_the_run(plan):
    with pytest.raises(InputError, match=r"^lines 9 to 12: wrong$"):
        through([*LINES[:10], "wrong", *LINES[10:]], plan)


def test_warnings_come_from_afar(plan):
    with pytest.warns(UserWarning, match="that is odd"):
        through([*LINES, "odd"], plan)


def test_warnings_that_nobody_would_see_here_do_not_come(recwarn):
    assert through([*LINES, "old"], PLANS["processes"]).endswith("OLD\n")
    assert not recwarn.list


def test_what_was_read_before_bad_input_is_finished(plan):
    """Whoever works."""

    def lines():
        yield from LINES[:12]
        raise InputError("text:13: not UTF-8")

    bodies = []
    results = run_through(
        lines(), partial(load, KNOWN), plan, note=lambda notes: None, progress=lambda pairs: None
    )
    with pytest.raises(InputError, match=r"^text:13: not UTF-8$"):
        bodies.extend(results)
    assert "".join(bodies) == "".join(f"{line.upper()}\n" for line in LINES[:12])


def test_between_results_stdout_is_as_it_was(plan):
    before = sys.stdout
    make = partial(load, KNOWN)
    for _ in run_through(LINES, make, plan, note=lambda notes: None, progress=lambda pairs: None):
        assert sys.stdout is before


def test_processes_of_others_live_on(tmp_path):
    other = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
    other.start()
    try:
        with pytest.raises(InputError, match="wrong"):
            through([*LINES, "wrong"], PLANS["processes"])
        assert other.is_alive()
    finally:
        other.kill()
        other.join()


def test_a_lost_process_is_told_in_one_line(tmp_path):
    with pytest.raises(InputError, match=r"a worker has died, .* fewer --workers"):
        through([*LINES, f"die {tmp_path / 'x'}"], PLANS["processes"])


def test_what_is_finished_is_kept_when_a_worker_dies(tmp_path):
    """Chunk 0 waits until all others are done, and then dies."""
    folder = RunFolder(tmp_path / "out")
    folder.begin({})
    folder.decide({})
    lines = [f"after 5 {tmp_path}", *LINES[:20]]
    plan = Plan(pairs=4, workers=2)
    with pytest.raises(InputError, match="a worker has died"):
        run_and_keep(
            lines, Late, plan, folder, note=lambda notes: None, progress=lambda pairs: None
        )
    assert sorted(folder.done()) == [1, 2, 3, 4, 5]


class Late(Shout):
    """Dies, but not before some others have finished."""

    def __call__(self, chunk, progress=None):
        if not chunk.items[0].startswith("after "):
            return super().__call__(chunk, progress)
        _, count, folder = chunk.items[0].split()
        _until(lambda: len(list(Path(folder, "out.run").glob("chunk-*"))) >= int(count))
        return os.kill(os.getpid(), signal.SIGKILL)


class Reference:
    """To what will be there, or will never be."""

    def __init__(self, done, result):
        self.done, self.result = done, result


class Actor:
    """A worker of a made-up cluster.

    Args:
        comes: whether it is ever there.
        hangs: whether its chunks are never finished.
        lives: how many chunks it finishes before its machine is gone; by default all.
    """

    def __init__(self, *, comes=True, hangs=False, lives=None):
        self.hangs, self.lives = hangs, lives
        self.given = []
        self.ready = SimpleNamespace(remote=lambda: Reference(comes, self.alive()))
        self.work = SimpleNamespace(remote=self.take)

    def alive(self):
        return ConnectionError("no such\nmachine") if self.lives == 0 and self.given else None

    def take(self, chunk, *, done=True):
        self.given.append(chunk.number)
        lost = self.alive()
        if self.lives:
            self.lives -= 1
        return Reference(done and not self.hangs, lost or (Result(chunk.items[0]), []))


class MadeUpRay:
    exceptions = SimpleNamespace(RayTaskError=KeyError, RayError=ConnectionError)

    def wait(self, references, timeout):
        return [reference for reference in references if reference.done][:1], references

    def get(self, reference):
        if isinstance(reference.result, Exception):
            raise reference.result
        return reference.result


def numbers_done(*actors):
    return sorted(chunk.number for chunk, _ in _Crew(MadeUpRay(), actors).run(cut(LINES, 4)))


@pytest.mark.parametrize("hangs", [False, True])
def test_workers_that_never_come_or_hang(hangs):
    first, last = Actor(hangs=hangs), Actor()
    assert numbers_done(first, Actor(comes=False), last) == list(range(6))
    twice = set(first.given) & set(last.given)
    assert bool(twice) == hangs  # what it had was given to the other


def test_nobody_gets_a_chunk_twice():
    """The first chunk takes its time."""

    class Slow(MadeUpRay):
        def wait(self, references, timeout):
            done, _ = super().wait(references, timeout)
            if not done:
                for reference in references:
                    reference.done = len(actor.given) == 6
            return done, references

    actor = Actor()
    take = actor.take
    actor.work.remote = lambda chunk: take(chunk, done=chunk.number != 0)
    results = list(_Crew(Slow(), [actor]).run(cut(LINES, 4)))
    assert len(results) == 6
    assert actor.given == list(range(6))


@pytest.mark.parametrize("lives", [0, 1, 3])
def test_the_chunks_of_a_machine_that_is_gone_go_to_others(lives):
    lost, other = Actor(lives=lives), Actor()
    assert numbers_done(lost, other) == list(range(6))
    assert len(other.given) == 6 - lives


def test_all_machines_are_gone():
    with pytest.raises(InputError, match="Ray has lost its workers for good: no such machine"):
        numbers_done(Actor(lives=0))


def test_a_chunk_that_every_worker_dies_of():
    class Fragile(Actor):
        def take(self, chunk):
            if chunk.number == 2:
                return Reference(True, ConnectionError("out of memory"))
            return super().take(chunk)

    message = "lines 9 to 12: whichever worker of Ray had them was lost: out of memory"
    with pytest.raises(InputError, match=message):
        numbers_done(Fragile(), Fragile())


def test_a_cluster_without_a_free_core_is_told():
    class Crowded(MadeUpRay):
        waits = 0

        def wait(self, references, timeout):
            self.waits += 1
            return super().wait(references, timeout) if self.waits > 1 else ([], references)

    with pytest.warns(UserWarning, match="Ray has started none of 1 workers for 60 seconds"):
        assert len(list(_Crew(Crowded(), [Actor()]).run(cut(LINES, 4)))) == 6
    assert list(_Crew(MadeUpRay(), [Actor(comes=False)]).run([])) == []


@pytest.mark.parametrize("address", ["garbage", "127.0.0.1:1", "ray://127.0.0.1:1"])
def test_no_cluster_at_that_address(address):
    pytest.importorskip("ray", reason="Ray is not installed: pip install .[ray]")
    plan = Plan(engine="ray", ray_address=address)
    with pytest.raises(InputError, match=f"^Ray at {address}: .*; expected the address of a clust"):
        through(LINES, plan)


def test_ray_replaces_a_worker_that_was_killed(tmp_path, capsys):
    pytest.importorskip("ray", reason="Ray is not installed: pip install .[ray]")
    lines = [*LINES[:9], f"die {tmp_path / 'killed'}", *LINES[9:]]
    text = through(lines, PLANS["ray"])
    assert (tmp_path / "killed").exists()
    assert capsys.readouterr().out == ""  # which is for results
    assert text.splitlines() == [line.removeprefix("die ").upper() for line in lines]


def test_workers_end_with_a_parent_that_was_killed(tmp_path):
    program = (
        "from functools import partial\n"
        "from tests.runs.test_engines import LINES, Plan, Waiting, run_through\n"
        "if __name__ == '__main__':\n"
        f"    make = partial(Waiting, {str(tmp_path)!r})\n"
        "    list(run_through(LINES, make, Plan(workers=2), note=print, progress=print))\n"
    )
    (tmp_path / "program.py").write_text(program)
    words = [sys.executable, tmp_path / "program.py"]
    parent = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(ROOT)})
    worker = _until(lambda: next(tmp_path.glob("worker-*"), None))
    parent.kill()
    parent.wait()
    number = int(worker.name.removeprefix("worker-"))
    _until(lambda: not Path(f"/proc/{number}").exists())


class Waiting:
    """Tells its process, and works for ever."""

    def __init__(self, folder, place):
        (Path(folder) / f"worker-{os.getpid()}").touch()

    def __call__(self, chunk):
        time.sleep(600)


def _until(happens):
    for _ in range(12000):
        if result := happens():
            return result
        time.sleep(0.05)
    raise AssertionError("it did not happen within ten minutes")


def test_workers_have_different_places(monkeypatch):
    places = places_of(3)
    found = []
    for number in (4, 5, 6):
        process = SimpleNamespace(name=f"SpawnProcess-{number}")
        monkeypatch.setattr(multiprocessing, "current_process", lambda process=process: process)
        found.append(_own_place(places).number)
    assert sorted(found) == [0, 1, 2]
    monkeypatch.undo()
    assert _own_place(places) == places[0]  # this process is no worker


def test_threads_do_not_fight():
    assert [place.number for place in places_of(3)] == [0, 1, 2]
    assert all(place.threads >= 1 for place in places_of(100))


@pytest.mark.parametrize("shards", [1, 3])
def test_a_run_that_is_broken_off_anywhere_goes_on(tmp_path, shards):
    whole = "".join(f"{line.upper()}\n" for line in LINES)
    for broken_after in range(7):
        folder = RunFolder(tmp_path / f"out{broken_after}")
        for attempt in range(2):
            for number in range(shards):
                shard = Shard(number, shards)
                folder.begin({})
                folder.decide({})
                if attempt == 0:
                    break_off(folder, shard, broken_after)
                else:
                    done = go_on(folder, shard)
                    before = sum(shard.has(chunk.number) for chunk in cut(LINES, 4))
                    assert done == max(0, before - broken_after)
        chunks = folder.chunks()
        assert "".join(folder.result(number).body for number in range(chunks)) == whole


def break_off(folder, shard, after):
    """Keeps some chunks, then is interrupted."""
    with contextlib.suppress(KeyboardInterrupt):
        go_on(Kept(folder, after), shard)


class Kept:
    """A folder that breaks off after some chunks."""

    def __init__(self, folder, after):
        self.folder, self.after = folder, after

    def __getattr__(self, name):
        return getattr(self.folder, name)

    def keep(self, chunk, result):
        if not self.after:
            raise KeyboardInterrupt
        self.after -= 1
        self.folder.keep(chunk, result)


def go_on(folder, shard):
    done = []
    run_and_keep(
        LINES,
        Shout,
        Plan(pairs=4, shard=shard),
        folder,
        note=lambda notes: None,
        progress=done.append,
    )
    return len(done)
