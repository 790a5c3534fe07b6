"""One run at a time writes an output, and one that was killed stands in nobody's way."""

import fcntl
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import whole_file
from fairseq_normalign.locks import is_locked, locked


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_two_writers_at_once(tmp_path):
    (tmp_path / "link").symlink_to("out")
    for name in ("out", "link"):
        with whole_file(tmp_path / "out") as file:
            file.write("first")
            with (
                pytest.raises(InputError, match="out: another run is writing it; expected one at"),
                whole_file(tmp_path / name),
            ):
                pass
        assert (tmp_path / "out").read_text() == "first"
    with whole_file(tmp_path / "out") as file, whole_file(tmp_path / "other"):
        file.write("second")
    assert (tmp_path / "out").read_text() == "second"
    assert names(tmp_path) == ["link", "other", "out"]


WRITER = """
import sys, time
from fairseq_normalign.files import whole_file
with whole_file(sys.argv[1]) as file:
    file.write("half")
    print("writing", flush=True)
    time.sleep(60)
"""


def test_a_killed_writer_blocks_nobody(tmp_path):
    path = tmp_path / "out"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout.readline() == "writing\n"
        with pytest.raises(InputError, match="another run is writing it"), whole_file(path):
            pass
        writer.send_signal(signal.SIGKILL)
    left = names(tmp_path)
    assert len(left) == 2  # the lock and the part
    (tmp_path / ".out.mine.part").write_text("")
    with whole_file(path) as file:
        file.write("whole")
    assert path.read_text() == "whole"
    assert names(tmp_path) == [".out.mine.part", "out"]


def test_a_lock_that_was_removed_meanwhile_is_taken_anew(tmp_path, monkeypatch):
    """Another run ends between our opening its lock and our locking it."""
    locks = []

    def flock(descriptor, how):
        locks.append(descriptor)
        if len(locks) == 1:
            (tmp_path / ".out.normalign-lock").unlink()

    monkeypatch.setattr(fcntl, "flock", flock)
    with whole_file(tmp_path / "out"):
        assert (tmp_path / ".out.normalign-lock").exists()
    assert len(locks) == 2
    assert names(tmp_path) == ["out"]


def test_the_lock_of_another_run_stays(tmp_path):
    """Its folder was removed with our lock, and made anew by that run."""
    folder = tmp_path / "out.run"
    folder.mkdir()
    with locked(folder / "shard"):
        folder.rename(tmp_path / "removed")
        folder.mkdir()
        other = locked(folder / "shard")
        other.__enter__()
    assert is_locked(folder / "shard")
    other.__exit__(None, None, None)
    assert not is_locked(folder / "shard")


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    def flock(descriptor, how):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)
    with whole_file(tmp_path / "out") as one, whole_file(tmp_path / "out") as other:
        one.write("first" * 10000)
        other.write("second" * 10000)
    assert (tmp_path / "out").read_text() == "first" * 10000  # the one that ended last
    assert names(tmp_path) == ["out"]
