"""An export that grows in a folder is the same bytes as one that is written in one go."""

import stat

import numpy as np
import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.results.export_writer import PART, create_export, grow_export

METADATA = {"quantity": "norms"}


@pytest.fixture
def expected(tmp_path):
    with create_export(tmp_path / "expected.npz", METADATA) as export:
        add(export, range(6))
    return (tmp_path / "expected.npz").read_bytes()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "x.npz.run").mkdir()
    return tmp_path / "x.npz.run"


def add(export, places):
    for place in places:
        export.add(place, np.full((2, place), place), ["a"] * place, ["b"])


def killed(path, folder):
    """What was kept after four sentences; more were written after that."""
    with pytest.raises(KeyboardInterrupt), grow_export(path, METADATA, folder) as export:
        add(export, (1, 0))
        assert export.written[0] == 2
        add(export, (3, 2))
        written = export.written
        add(export, (4,))
        raise KeyboardInterrupt
    assert not path.exists()
    (folder / "sums-arrays").touch()
    return written


def test_an_export_goes_on_where_it_was(tmp_path, folder):
    path = tmp_path / "x.npz"
    with create_export(tmp_path / "expected.npz", METADATA) as export:
        add(export, (1, 0, 3, 2, 5, 4))
    written = killed(path, folder)
    with grow_export(path, METADATA, folder) as export:
        export.written = written
        add(export, (5, 4))
    assert path.read_bytes() == (tmp_path / "expected.npz").read_bytes()
    assert not (folder / PART).exists()


def test_what_was_written_but_not_kept_is_written_over(tmp_path, folder, expected):
    path = tmp_path / "x.npz"
    killed(path, folder)
    with (folder / PART).open("ab") as file:
        file.write(b"x" * 10_000)
    with grow_export(path, METADATA, folder) as export:
        add(export, range(6))
    assert path.read_bytes() == expected


def test_a_file_that_has_lost_something(tmp_path, folder):
    path = tmp_path / "x.npz"
    written = killed(path, folder)
    with (folder / PART).open("r+b") as file:
        file.truncate(100)
    with (
        pytest.raises(
            InputError, match=r"arrays.npz: is damaged; expected \d+ bytes, or --restart"
        ),
        grow_export(path, METADATA, folder) as export,
    ):
        export.written = written
    (folder / PART).unlink()  # as after a run that was killed when all was done
    with grow_export(path, METADATA, folder):
        assert not (folder / "sums-arrays").exists()


def test_the_file_that_is_replaced_hands_on_its_permissions(tmp_path, folder):
    path = tmp_path / "x.npz"
    path.touch()
    path.chmod(0o640)
    with grow_export(path, METADATA, folder) as export:
        add(export, range(2))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_place_where_nothing_can_be_written(tmp_path, folder):
    (tmp_path / "x").mkdir()
    with (
        pytest.raises(InputError, match="x: cannot be written: Is a directory"),
        grow_export(tmp_path / "x", METADATA, folder),
    ):
        pass
    assert not list(folder.iterdir())


@pytest.mark.parametrize("size", [0, 100_000])  # fails when it is closed, fails when written
def test_a_full_disk_is_told_of_the_file_that_is_written(tmp_path, folder, size):
    (folder / PART).symlink_to("/dev/full")
    with (
        pytest.raises(InputError, match=r"x.npz: cannot be written: No space left on device"),
        grow_export(tmp_path / "x.npz", METADATA, folder) as export,
    ):
        export.add(0, np.zeros(size), ["a"], ["b"])
