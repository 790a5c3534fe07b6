"""Files are read to the end or refused in one line, and written whole or not at all."""

import errno
import gzip
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import (
    is_locked,
    is_stream,
    new_file,
    read_lines,
    refuse_unwritable,
    whole_file,
)
from tests.conftest import full_disk

# Without the time of packing: workers that collect tests a second apart must name them alike.
PACKED = gzip.compress(b"0-0 1-1\n" * 5000, mtime=0)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("binary", b"\xff\xfe\x00\x80", "binary:1: not UTF-8 text .*$"),
        ("later", b"0-0\n" * 9999 + b"\xe4\n", "later:10000: not UTF-8 text"),
        ("short.gz", b"\x1f\x8b\x08\x00\x00", "short.gz: damaged: .*; is the gzip file complete"),
        ("cut.gz", PACKED[:-12], "cut.gz: damaged: .*; is the gzip file complete"),
        ("not.gz", b"0-0\n", "not.gz: Not a gzipped file"),
    ],
)
def test_what_is_not_text_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as refused:
        list(read_lines(tmp_path / name))
    assert "\n" not in str(refused.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(InputError, match="nowhere: No such file"):
        list(read_lines(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=f"{tmp_path}: Is a directory"):
        list(read_lines(tmp_path))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_failed_write_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "out"
    path.write_text("old")
    with pytest.raises(error), whole_file(path) as file:
        file.write("new")
        raise error
    assert path.read_text() == "old"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("no/out", "out: cannot be written: No such file"), ("", "cannot be written: Is a directory")],
)
def test_a_file_that_cannot_be_written_is_named(tmp_path, name, message):
    begun = False
    with pytest.raises(InputError, match=message), whole_file(tmp_path / name):
        begun = True
    assert not begun


@pytest.mark.parametrize("size", [10, 100_000])  # fails when it is closed, fails when written
def test_a_full_disk_is_named_and_leaves_nothing(tmp_path, size):
    (tmp_path / "out").write_text("old")
    with (
        full_disk(5),
        pytest.raises(InputError, match="out: cannot be written: File too large"),
        whole_file(tmp_path / "out") as file,
    ):
        file.write("x" * size)
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out").read_text() == "old"


def test_permissions_of_a_file_stay(tmp_path):
    path = tmp_path / "out"
    for mode in (0o600, 0o640, 0o666):
        path.write_text("old")
        path.chmod(mode)
        with whole_file(path) as file:
            assert stat.S_IMODE((tmp_path / ".out.part").stat().st_mode) == mode
            file.write("new")
        assert stat.S_IMODE(path.stat().st_mode) == mode
        assert path.read_text() == "new"


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_honours_the_umask(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        with whole_file(tmp_path / "out"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == mode


@pytest.mark.parametrize("there", [True, False])
def test_a_symbolic_link_stays_and_its_target_is_written(tmp_path, there):
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    target.parent.mkdir()
    if there:
        target.write_text("old")
    link.symlink_to(Path("folder") / "target")
    with whole_file(link) as file:
        file.write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert names(tmp_path) == ["folder", "link"]
    assert names(target.parent) == ["target"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a link of another user's")
def test_a_link_of_another_user_in_a_folder_for_all_is_not_followed(tmp_path):
    (tmp_path / "precious").write_text("old")
    folder, own = tmp_path / "tmp", tmp_path / "own"
    folder.mkdir()
    folder.chmod(0o1777)
    (folder / "out").symlink_to(tmp_path / "precious")
    (folder / "dir").symlink_to(tmp_path)
    own.symlink_to("tmp/out")
    with whole_file(own) as file:
        file.write("by one's own links")
    for name in ("out", "dir"):
        os.chown(folder / name, 12345, 12345, follow_symlinks=False)
    for path in (folder / "out", folder / "dir" / "precious", own):
        with (
            pytest.raises(InputError, match=r"(out|dir): is another user's symbolic link in"),
            whole_file(path) as file,
        ):
            file.write("forged")
        with pytest.raises(InputError, match="is another user's symbolic link"):
            refuse_unwritable(path)
    assert (tmp_path / "precious").read_text() == "by one's own links"
    os.chown(folder, 12345, 12345)  # who owns the folder can do anything there
    with whole_file(folder / "out") as file:
        file.write("new")
    assert (tmp_path / "precious").read_text() == "new"


def test_a_pipe_is_written_straight(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with whole_file(pipe) as file:
        file.write("through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert names(tmp_path) == ["pipe"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_stdout_is_no_file_to_replace(name, capfd):
    assert is_stream(name)
    print("before")
    with whole_file(name) as file:
        file.write("between\n")
    print("after")
    assert capfd.readouterr().out == "before\nbetween\nafter\n"


def test_an_output_that_is_an_input_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("")
    (tmp_path / "link").symlink_to("in")
    os.link("in", "hard")
    for name in ("in", "./in", "link", "hard", str(tmp_path / "in")):
        with pytest.raises(InputError, match=r"would overwrite the input in; choose another"):
            refuse_unwritable(name, None, "-", "in")
    refuse_unwritable("out", "in", None, "-")
    refuse_unwritable("/dev/null", "/dev/null")
    with pytest.raises(InputError, match=r"would overwrite the input folder/\.\./out"):
        refuse_unwritable("out", "folder/../out")


@pytest.mark.parametrize("content", ["a\n\u2028b\rc\n", "a\n\r\rb\r\n", "x\ny\r\r\n"])
def test_a_carriage_return_elsewhere_is_refused(tmp_path, content):
    """It is the end of a line for Python, and none for wc, awk and other aligners."""
    path = tmp_path / "text"
    path.write_bytes(content.encode())
    with pytest.raises(InputError, match=r"text:2: has a carriage return \(CR\) within; expected"):
        list(read_lines(path))


def test_text_for_a_packed_file_is_packed(tmp_path):
    """The same text is the same bytes, whatever the file is called and whenever it is written."""
    lines = ["0-0 1-1\n", "\n", "ä\n"]
    for name in ("a.gz", "b.gz"):
        with whole_file(tmp_path / name) as file:
            file.writelines(lines)
    assert list(read_lines(tmp_path / "a.gz")) == lines
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    before = (tmp_path / "a.gz").read_bytes()
    with pytest.raises(InputError, match="bad line"), whole_file(tmp_path / "a.gz") as file:
        file.write("half")
        raise InputError("bad line")
    assert (tmp_path / "a.gz").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_who_is_first_writes_a_new_file(tmp_path):
    new_file(tmp_path / "out", "first")
    with pytest.raises(FileExistsError):
        new_file(tmp_path / "out", "second")
    assert (tmp_path / "out").read_text() == "first"
    assert names(tmp_path) == ["out"]


def test_two_writers_at_once(tmp_path):
    (tmp_path / "link").symlink_to("out")
    for name in ("out", "link"):
        with whole_file(tmp_path / "out") as file:
            file.write("first")
            with (
                pytest.raises(InputError, match="out: another run is writing it; wait until"),
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
    assert names(tmp_path) == [".out.normalign-lock", ".out.part"]
    with whole_file(path) as file:
        file.write("whole")
    assert path.read_text() == "whole"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks(tmp_path, monkeypatch, number):
    def flock(*given):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", flock)
    with whole_file(tmp_path / "out") as file:
        file.write("whole")
    assert names(tmp_path) == ["out"]
    assert not is_locked(tmp_path / "out")


def test_zstandard_in_and_out(tmp_path):
    zstd = pytest.importorskip("backports.zstd")
    lines = [f"{number} wörter\n" for number in range(50_000)]
    path = tmp_path / "a.zst"
    with whole_file(path) as file:
        file.writelines(lines)
    assert list(read_lines(path)) == lines
    packed = path.read_bytes()
    assert zstd.decompress(packed) == "".join(lines).encode()
    path.write_bytes(packed + packed)  # as `cat a.zst b.zst` makes it
    assert list(read_lines(path)) == lines * 2
    for damaged in (packed[:-9], b"0-0\n", b""):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"a.zst: damaged: .*; is the zstd file complete"):
            list(read_lines(path))


def test_zstandard_may_be_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    with (
        pytest.raises(InputError, match="pip install backports"),
        whole_file(tmp_path / "a.zst"),
    ):
        pass
    assert not list(tmp_path.iterdir())
