"""SOURCE and TARGET as two files, or as one of ``source ||| target``."""

import sys

import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import read_together
from fairseq_normalign.text.paired import Sources, text_sides

LINES = "a b ||| x\n ||| \n|||\nc ||| y || z\n"
SOURCES, TARGETS = ["a b", "", "", "c"], ["x\n", "\n", "", "y || z\n"]


@pytest.mark.parametrize("is_stream", [False, True])
def test_one_file_is_both_sides(is_stream, tmp_path, monkeypatch):
    path = tmp_path / "pairs"
    path.write_text(LINES)
    monkeypatch.setattr(sys, "stdin", path.open())
    sides = text_sides("-" if is_stream else str(path), None)
    assert list(read_together(*sides)) == list(zip(SOURCES, TARGETS, strict=True))
    assert list(Sources(path)) == SOURCES


def test_two_files_are_lines_as_they_are(tmp_path):
    for name in ("source", "target"):
        (tmp_path / name).write_text("a\nb ||| c\n")
    sides = text_sides(str(tmp_path / "source"), str(tmp_path / "target"))
    assert list(map(list, sides)) == [["a\n", "b ||| c\n"]] * 2
    assert list(Sources(tmp_path / "source")) == ["a\n", "b ||| c\n"]


@pytest.mark.parametrize("line", ["a b", "a ||| b ||| c", "a|||b", ""])
def test_lines_that_are_no_pairs(line, tmp_path):
    path = tmp_path / "pairs"
    path.write_text(f"a ||| b\n{line}\n")
    for text in (text_sides(str(path), None)[0], Sources(path)):
        with pytest.raises(InputError, match=r"pairs:2: not a line 'source \|\|\| target'; if"):
            list(text)
