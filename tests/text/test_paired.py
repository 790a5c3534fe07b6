"""SOURCE and TARGET as two files, or as one of ``source ||| target``."""

import sys

import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import read_together
from fairseq_normalign.text.paired import read_printed, read_sources, text_sides

LINES = "a b ||| x\n ||| \n|||\nc ||| y || z\n"
SOURCES, TARGETS = ["a b", "", "", "c"], ["x\n", "\n", "", "y || z\n"]


@pytest.mark.parametrize("is_stream", [False, True])
def test_one_file_is_both_sides(is_stream, tmp_path, monkeypatch):
    path = tmp_path / "pairs"
    path.write_text(LINES)
    monkeypatch.setattr(sys, "stdin", path.open())
    sides = text_sides("-" if is_stream else str(path), None)
    assert list(read_together(*sides)) == list(zip(SOURCES, TARGETS, strict=True))
    assert list(read_sources(path)) == SOURCES


def test_two_files_are_lines_as_they_are(tmp_path):
    for name in ("source", "target"):
        (tmp_path / name).write_text("a\nb ||| c\n")
    sides = text_sides(str(tmp_path / "source"), str(tmp_path / "target"))
    assert list(map(list, sides)) == [["a\n", "b ||| c\n"]] * 2
    assert list(read_sources(tmp_path / "source")) == ["a\n", "b ||| c\n"]


@pytest.mark.parametrize("line", ["a b", "a ||| b ||| c", "a|||b", ""])
def test_lines_that_are_no_pairs(line, tmp_path):
    path = tmp_path / "pairs"
    path.write_text(f"a ||| b\n{line}\n")
    for text in (text_sides(str(path), None)[0], read_sources(path)):
        with pytest.raises(InputError, match=r"pairs:2: not a line 'source \|\|\| target'; if"):
            list(text)


LOG = """2026 | INFO | loading
S-1\tein haus
T-1\ta house
H-1\t-0.5\tone house
H-1\t-0.9\ta home
P-1\t-0.1 -0.4
S-0\t
H-0\t-1.0\tyes
A-0\t
"""


def test_a_generation_log(tmp_path):
    (tmp_path / "gen.out").write_text(LOG)
    assert read_printed(tmp_path / "gen.out") == (
        [[], ["ein", "haus"]],
        [["yes"], ["one", "house"]],
    )


def test_plain_text_is_no_log(tmp_path):
    (tmp_path / "plain.txt").write_text("H- is a letter\none house\n")
    assert read_printed(tmp_path / "plain.txt") is None


def test_a_gap_is_an_error(tmp_path):
    (tmp_path / "gen.out").write_text(LOG.replace("S-0\t\n", ""))
    with pytest.raises(InputError, match=r"gen\.out: sentence 0 has no S- or no H- line"):
        read_printed(tmp_path / "gen.out")
