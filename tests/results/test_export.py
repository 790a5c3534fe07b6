"""Exports are written and read one sentence at a time, and by NumPy alone."""

import json
import subprocess
import sys

import numpy as np
import pytest

from fairseq_normalign import open_export
from fairseq_normalign.errors import InputError
from fairseq_normalign.results.export import create_export

LENGTHS = {2: 3, 0: 1, 11: 4, 1: 0, 3: 2}  # in the order of writing; all of 0 to 11 are there
LENGTHS.update({index: 2 for index in range(12) if index not in LENGTHS})


def array(index: int) -> np.ndarray:
    return np.arange(2.0 * LENGTHS[index], dtype="float32").reshape(2, LENGTHS[index]) + index


@pytest.fixture
def path(tmp_path):
    with create_export(tmp_path / "x.npz", {"quantity": "norms"}) as export:
        for index, length in LENGTHS.items():
            export.add(index, array(index), [*["▁ü"] * length, "</s>"], ["</s>"])
    return tmp_path / "x.npz"


def test_what_was_written_is_read_in_order(path):
    with open_export(path) as export:
        assert export.metadata == {"quantity": "norms", "sentences": 12}
        assert len(export) == len(list(export)) == 12
        for index, item in enumerate(export):
            np.testing.assert_array_equal(item.array, array(index))
            assert item.array.dtype == np.float32
            assert item.source == [*["▁ü"] * LENGTHS[index], "</s>"]
            assert item.target == ["</s>"]
        np.testing.assert_array_equal(export[-1].array, array(11))
        with pytest.raises(IndexError, match="sentence 12 of an export of 12"):
            export[12]


def test_numpy_reads_it_in_order_too(path):
    with np.load(path) as file:
        names = []
        for index in range(12):
            names += [f"{index}.array", f"{index}.tokens.json"]
        assert file.files == ["metadata.json", *names]
        np.testing.assert_array_equal(file["11.array"], array(11))
        assert json.loads(file["2.tokens.json"])["source"] == ["▁ü", "▁ü", "▁ü", "</s>"]


def test_the_same_export_is_the_same_bytes_whatever_the_time(path, tmp_path, monkeypatch):
    monkeypatch.setattr("time.localtime", lambda *args: (2001, 1, 1, 0, 0, 0))
    with create_export(tmp_path / "again.npz", {"quantity": "norms"}) as export:
        for index, length in LENGTHS.items():
            export.add(index, array(index), [*["▁ü"] * length, "</s>"], ["</s>"])
    assert (tmp_path / "again.npz").read_bytes() == path.read_bytes()


def test_other_files_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    (tmp_path / "text.npz").write_text("text")
    for name in ("other.npz", "text.npz"):
        with pytest.raises(
            InputError, match=rf"{name}: not an export; expected a file that normalign export wrote"
        ):
            open_export(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        open_export(tmp_path / "none.npz")


def test_an_export_through_a_pipe(path):
    """What cannot be rewound is written, too."""
    code = (
        "import numpy as np; from fairseq_normalign.results.export import create_export\n"
        "with create_export('/dev/stdout', {'quantity': 'norms'}) as export:\n"
        "    export.add(1, np.ones(3), ['b'], []); export.add(0, np.zeros(2), ['a'], [])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    path.write_bytes(done.stdout)
    with open_export(path) as export:
        assert [item.source for item in export] == [["a"], ["b"]]
        np.testing.assert_array_equal(export[1].array, np.ones(3))


def test_the_reader_needs_neither_torch_nor_fairseq(path):
    code = (
        "import sys; from fairseq_normalign import open_export; assert "
        "len(open_export(sys.argv[1])[2].source) == 4; "
        "assert not {'torch', 'fairseq'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
