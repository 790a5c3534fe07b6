"""Signatures belong to their alignments, whatever happens while they are written."""

import json
from pathlib import Path

import pytest

from fairseq_normalign.alignment.signature import made_with, signed_file
from fairseq_normalign.errors import InputError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_an_alignment_and_its_signature(tmp_path):
    path = tmp_path / "out"
    assert made_with(path) == {}
    assert made_with("-") == {}
    for layer, line in ((1, "0-0\n"), (2, "0-0 1-1\n")):
        with signed_file(path, {"layer": layer}) as file:
            file.write(line)
        assert path.read_text() == line
        assert made_with(path) == {"layer": layer}
        assert names(tmp_path) == ["out", "out.json"]


def test_a_failed_run_leaves_both_as_they_were(tmp_path):
    path = tmp_path / "out"
    with signed_file(path, {"layer": 1}) as file:
        file.write("0-0\n")
    with pytest.raises(RuntimeError), signed_file(path, {"layer": 2}) as file:
        file.write("0-1\n")
        raise RuntimeError
    assert (path.read_text(), made_with(path)) == ("0-0\n", {"layer": 1})
    assert names(tmp_path) == ["out", "out.json"]


def test_no_alignment_ever_has_the_signature_of_another(tmp_path, monkeypatch):
    """The run dies when the alignment is in place, or just before: there is no signature then."""
    path = tmp_path / "out"
    replace = Path.replace

    def die(part, target):
        if dies_before and Path(target).name == "out":
            raise OSError(5, "died")
        replace(part, target)
        if Path(target).name == "out":
            raise OSError(5, "died")

    for dies_before in (True, False):
        with signed_file(path, {"layer": 1}) as file:
            file.write("0-0\n")
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", die)
            with pytest.raises(InputError, match="died"), signed_file(path, {"layer": 2}) as file:
                file.write("0-1\n")
        assert path.read_text() == ("0-0\n" if dies_before else "0-1\n")
        assert made_with(path) == {}
        assert names(tmp_path) == ["out"]


def test_somebodys_own_json_is_not_overwritten(tmp_path):
    (tmp_path / "out.json").write_text('{"mine": 1}')
    with (
        pytest.raises(InputError, match=r"out\.json: is no signature, and would be overwritten by"),
        signed_file(tmp_path / "out", {}),
    ):
        pass
    assert (tmp_path / "out.json").read_text() == '{"mine": 1}'
    assert names(tmp_path) == ["out.json"]


def test_a_signature_of_a_file_of_another_size_does_not_count(tmp_path):
    path = tmp_path / "hyp"
    (tmp_path / "hyp.json").write_text(json.dumps({"signature": {"layer": 2}}))
    assert made_with(path) == {"layer": 2}
    path.write_text("0-0\n")
    assert made_with(path) == {"layer": 2}
    with signed_file(path, {"layer": 3}) as file:
        file.write("0-0\n")
    assert made_with(path) == {"layer": 3}
    path.write_text("0-0 1-1\n")
    assert made_with(path) == {}
