"""The same results, in the same order, whoever works."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.runs.chunks import Partial, Shard, cut
from fairseq_normalign.runs.engines import ray_cluster
from fairseq_normalign.runs.folder import RunFolder
from fairseq_normalign.runs.measure import Job, Made, Plan, made_in, run
from tests.conftest import ROOT

LINES = [f"line {number}" for number in range(23)]


class Shout:
    """Lines in capitals; on some it fails, warns, or dies."""

    name = "shout"
    pairs_per_chunk = 4
    first_pairs = 0

    def chunk(self, models, chunk, prepared, progress):
        assert len(models) == len(KNOWN)
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
            if item.startswith("after "):
                _, count, folder = item.split()
                _until(lambda: len(list(Path(folder).glob("chunk-*"))) >= int(count))  # noqa: B023
                os.kill(os.getpid(), signal.SIGKILL)
        progress(len(chunk.items))
        body = "".join(f"{item.removeprefix('die ').upper()}\n" for item in chunk.items)
        return Partial(text=body, notes={"first": chunk.first})


class Lengths(Shout):
    """How many letters the lines have."""

    name = "lengths"
    pairs_per_chunk = 3

    def chunk(self, models, chunk, prepared, progress):
        progress(len(chunk.items))
        counts = np.array([len(chunk.items), sum(map(len, chunk.items))])
        return Partial({"letters.sum": counts}, notes={"first": chunk.first})

    def finish(self, total, prepared):
        return total.arrays["letters.sum"].tolist()


def load(known, place):
    """What a worker loads may be large, as a lexicon is."""
    return known


KNOWN = "x" * 1_000_000


def job(lines, measure=None):
    return Job(measure or Shout(), lines, {})


def through(lines, plan):
    notes, done = [], []
    with contextlib.ExitStack() as stack:
        if plan.engine == "ray":
            stack.enter_context(ray_cluster(plan.ray_address))
        made = run(
            [job(lines), job(LINES[:5], Lengths())],
            partial(load, KNOWN),
            plan,
            note=notes.append,
            progress=done.append,
        )
        partials = list(made)
    assert [note["first"] for note in notes] == [*range(0, len(lines), 4), 0, 3]
    assert sum(done) == len(lines) + 5
    sums = (partial for name, partial in partials if name == "lengths")
    assert Made({}, sums).result(Lengths()) == [5, 30]
    return "".join(partial.text for name, partial in partials if name == "shout")


PLANS = {"here": Plan(), "processes": Plan(workers=2), "ray": Plan(workers=2, engine="ray")}


@pytest.fixture(params=PLANS)
def plan(request):
    if request.param == "ray":
        pytest.importorskip("ray", reason="Ray is not installed: pip install .[ray]")
    return PLANS[request.param]


def test_results_come_in_order_and_so_do_warnings(plan):
    with pytest.warns(UserWarning, match="that is odd"):
        text = through([*LINES, "odd"], plan)
    assert text == "".join(f"{line.upper()}\n" for line in [*LINES, "odd"])


@pytest.mark.parametrize("plan", ["here", "processes"], indirect=True)
def test_bad_input_ends_the_run(plan):
    with pytest.raises(InputError, match=r"^lines 9 to 12: wrong$"):
        through([*LINES[:10], "wrong", *LINES[10:]], plan)


def test_what_is_finished_is_kept_when_a_worker_dies(tmp_path):
    """Chunk 0 waits until all others are done, and then dies."""
    folder = begun(tmp_path / "out")
    lines = [f"after 5 {tmp_path / 'out.run'}", *LINES[:20]]
    with pytest.raises(InputError, match=r"a worker has died: .* fewer --workers"):
        list(run([job(lines)], partial(load, KNOWN), Plan(workers=2), folder))
    assert folder.done() == 5


@pytest.mark.parametrize("address", ["garbage", "127.0.0.1:1", "ray://127.0.0.1:1"])
def test_no_cluster_at_that_address(address):
    pytest.importorskip("ray", reason="Ray is not installed: pip install .[ray]")
    message = f"^Ray at {address}: .*; use the address of a running clust"
    with pytest.raises(InputError, match=message), ray_cluster(address):
        pass


def test_ray_replaces_a_worker_that_was_killed(tmp_path, capsys):
    pytest.importorskip("ray", reason="Ray is not installed: pip install .[ray]")
    lines = [*LINES[:9], f"die {tmp_path / 'killed'}", *LINES[9:]]
    text = through(lines, PLANS["ray"])
    assert (tmp_path / "killed").exists()
    assert capsys.readouterr().out == ""  # which is for results
    assert text.splitlines() == [line.removeprefix("die ").upper() for line in lines]


def cannot_load(place):
    raise InputError("best.pt: no such file")


@pytest.mark.parametrize("plan", ["here", "processes"], indirect=True)
def test_models_that_no_worker_can_load(plan):
    with pytest.raises(InputError, match=r"^best.pt: no such file$"):
        list(run([job(LINES)], cannot_load, plan))


def test_workers_end_with_a_parent_that_was_killed(tmp_path):
    program = (
        "from functools import partial\n"
        "from tests.runs.test_engines import LINES, Plan, Waiting, job, load_waiting, run\n"
        "if __name__ == '__main__':\n"
        f"    load = partial(load_waiting, {str(tmp_path)!r})\n"
        "    list(run([job(LINES, Waiting())], load, Plan(workers=2)))\n"
    )
    (tmp_path / "program.py").write_text(program)
    words = [sys.executable, tmp_path / "program.py"]
    parent = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(ROOT)})
    worker = _until(lambda: next(tmp_path.glob("worker-*"), None))
    parent.kill()
    parent.wait()
    number = int(worker.name.removeprefix("worker-"))
    _until(lambda: not Path(f"/proc/{number}").exists())


def load_waiting(folder, place):
    (Path(folder) / f"worker-{os.getpid()}").touch()


class Waiting(Shout):
    """Works for ever."""

    def chunk(self, models, chunk, prepared, progress):
        time.sleep(600)


def _until(happens):
    for _ in range(12000):
        if result := happens():
            return result
        time.sleep(0.05)
    raise AssertionError("it did not happen within ten minutes")


def begun(output):
    folder = RunFolder(output)
    folder.begin({})
    for name in ("shout", "lengths"):
        folder.prepare(name, {})
    return folder


@pytest.mark.parametrize("shards", [1, 3])
def test_a_run_that_is_broken_off_anywhere_goes_on(tmp_path, shards):
    """Two measures in one folder."""
    whole = "".join(f"{line.upper()}\n" for line in LINES)
    for broken_after in range(9):
        folder = begun(tmp_path / f"out{broken_after}")
        for attempt in range(2):
            for number in range(shards):
                shard = Shard(number, shards)
                if attempt == 0:
                    break_off(folder, shard, broken_after)
                else:
                    done = go_on(folder, shard)
                    before = sum(shard.has(chunk.number) for chunk in cut(LINES, 4))
                    before += sum(shard.has(chunk.number) for chunk in cut(LINES[:5], 3))
                    assert done == max(0, before - broken_after)
        made = made_in(folder)
        assert "".join(partial.text for partial in made["shout"].partials) == whole
        assert made["lengths"].result(Lengths()) == [5, 30]


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

    def keep(self, chunk, made):
        if not self.after:
            raise KeyboardInterrupt
        self.after -= 1
        self.folder.keep(chunk, made)


def go_on(folder, shard):
    jobs = [job(LINES), job(LINES[:5], Lengths())]
    plan = Plan(num_shards=shard.of, shard_id=shard.number)
    done = list(run(jobs, partial(load, KNOWN), plan, folder))
    folder.finish(shard, folder.counted)
    return len(done)
