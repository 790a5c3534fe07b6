"""Columns stand below each other, in any script."""

from fairseq_normalign.results.text import columns, display_width


def test_the_first_column_is_left_and_the_others_right():
    rows = [["system", "AER", "P"], ["a", "12.5", ""], ["longer name", "7.0", "100.0"]]
    assert columns(rows) == [
        "system        AER      P",
        "a            12.5",
        "longer name   7.0  100.0",
    ]


def test_other_columns_may_be_left_too():
    rows = [["a", "b", "c"], ["1", "22", "x y"]]
    assert columns(rows, left=(0, 2)) == ["a   b  c", "1  22  x y"]
    assert columns(rows, left=range(3)) == ["a  b   c", "1  22  x y"]


def test_wide_and_combining_characters_keep_the_columns():
    lines = columns([["日本.txt", "1"], ["cafe\u0301.txt", "10"], ["abc.txt", "5"]])
    assert {display_width(line) for line in lines} == {len("日本.txt") + 2 + 4}
    assert lines[1] == "cafe\u0301.txt  10"
