"""Lines of text files."""

from __future__ import annotations

import gzip

import pytest
from lines import read_lines, read_pairs, text_file, write_lines, write_pairs

from fairseq_normalign.errors import InputError


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"a b\nc", ["a b", "c"]),
        (b"a\r\n\nb\n", ["a", "", "b"]),
        ("a\u2028b\u0085c\x0bd\n".encode(), ["a\u2028b\u0085c\x0bd"]),
    ],
)
def test_read_lines(tmp_path, content, expected):
    path = tmp_path / "text"
    path.write_bytes(content)
    assert list(read_lines(path)) == expected


def test_latin1(tmp_path):
    (tmp_path / "text").write_bytes(b"da\xdf\n")
    assert list(read_lines(tmp_path / "text", "latin-1")) == ["daß"]
    with pytest.raises(InputError, match=r"text:1: byte 0xdf; expected utf-8 text"):
        list(read_lines(tmp_path / "text"))


@pytest.mark.parametrize(
    ("ours", "theirs", "short"), [(["a"], ["b", "c"], "src"), (["a", "b"], ["c"], "tgt")]
)
def test_unequal_files(tmp_path, ours, theirs, short):
    paths = tmp_path / "x.src", tmp_path / "x.tgt"
    for path, lines in zip(paths, (ours, theirs), strict=True):
        write_lines(path, lines)
    with pytest.raises(
        InputError, match=rf"x\.{short}: 1 lines, but .* has more; expected as many in both"
    ):
        list(read_pairs(*paths))


def test_a_failure_leaves_the_old_file(tmp_path):
    write_lines(tmp_path / "text", ["old"])
    with pytest.raises(ZeroDivisionError):
        write_lines(tmp_path / "text", (str(1 // n) for n in (1, 0)))
    assert list(read_lines(tmp_path / "text")) == ["old"]
    with pytest.raises(ZeroDivisionError):
        write_pairs(tmp_path / "x", tmp_path / "y", ((str(1 // n), "") for n in (1, 0)))
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_packed_text(tmp_path):
    (tmp_path / "text.gz").write_bytes(gzip.compress("a\nä\n".encode()))
    assert text_file(tmp_path / "text") == tmp_path / "text.gz"
    assert list(read_lines(tmp_path / "text.gz")) == ["a", "ä"]
    write_lines(tmp_path / "text", ["b"])
    assert text_file(tmp_path / "text") == tmp_path / "text"
