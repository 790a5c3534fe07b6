import re

import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.frequencies import Frequencies, read_frequencies

SENTENCES = [(["▁big", "▁hou", "se"], ["big", "house", "house"]), (["▁big"], ["big"])]


def test_a_file(tmp_path):
    path = tmp_path / "freq.txt"
    path.write_text("house\t12\n\nbig 3.5\r\n")
    assert read_frequencies(path) == {"house": 12, "big": 3.5}


FOUND = "found '{}'; expected a word and its count, 0 or more"
BAD_LINES = ["house", "house many", "a house 12", "house nan", "house -inf", "house -1"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        *((line, FOUND.format(line)) for line in [*BAD_LINES, "house 1e999"]),
        ("big 4", "'big' comes again; expected each word once"),
        ("big 3", "'big' comes again; expected each word once"),
    ],
)
def test_bad_lines(line, message, tmp_path):
    path = tmp_path / "freq.txt"
    path.write_text(f"big 3\n{line}\n")
    with pytest.raises(InputError, match=rf"freq\.txt:2: {message}"):
        read_frequencies(path)


def test_counts_of_words_or_of_pieces():
    words = Frequencies({"big": 3, "house": 1}, "a", SENTENCES)
    assert words(*SENTENCES[0]) == [3, 1, 1]
    pieces = Frequencies({"▁big": 3, "▁hou": 1}, "a", SENTENCES)
    assert pieces(*SENTENCES[0]) == [3, 1, 0]


BAD = {
    "all counts are equal; expected how often": {"big": 1, "house": 1},
    "has 0% of its pieces and 0% of its words of the corpus; are they of another vocabulary?": {
        "a": 1,
        "b": 2,
    },
    "has 25% of its pieces and 0% of its words of the corpus": {"▁hou": 1, "b": 2},
}


@pytest.mark.parametrize("message", BAD)
def test_counts_that_are_refused(message):
    with pytest.raises(InputError, match="^freq.txt: " + re.escape(message)):
        Frequencies(BAD[message], "freq.txt", SENTENCES)
