"""What is written in each format: what holds links is read again, the rest is compared."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.link_formats import OF_LINKS, WRITERS, AlignedPair, file_lines
from fairseq_normalign.text.links import InMemory, LinkFile, read_together

LINKS = [(1, 0), (0, 1)]
SOFT = np.array([[0.25, 0.5], [0.75, 0.25]])
PAIR = AlignedPair(LINKS, [0.5, 0.75], ["das", "haus"], ["the", "house\u2028"], SOFT)
links = st.sets(st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=30)


@pytest.mark.parametrize(
    ("format", "index", "expected"),
    [
        ("pharaoh", 0, "0-1:0.750 1-0:0.500"),
        ("talp", 1, "1-2:0.750 2-1:0.500"),
        ("words", 0, "das<sep>house\u2028 haus<sep>the"),
        # what a row lacks of 1 is that of </s>, which the target's takes
        ("marian-soft", 0, "0.2500,0.5000,0.2500 0.7500,0.2500,0.0000 0.0000,0.0000,1.0000"),
    ],
)
def test_a_line_of_each_format(format, index, expected):
    assert WRITERS[format](PAIR, index) == expected


def test_json_has_words_links_and_their_shares():
    assert json.loads(WRITERS["jsonl"](PAIR, 0)) == {
        "source": ["das", "haus"],
        "target": ["the", "house\u2028"],
        "links": [[0, 1], [1, 0]],
        "shares": [0.75, 0.5],
    }


def test_naacl_has_a_line_for_each_link_of_numbered_pairs():
    lines = [WRITERS["naacl"](pair, 1) for pair in (PAIR, AlignedPair([]), AlignedPair([(0, 0)]))]
    written = ["7 1 2 S 0.750\n", "7 2 1 S 0.500\n", "9 1 1 S\n"]
    assert list(file_lines(lines, "naacl", first=7)) == written


@pytest.mark.parametrize("format", OF_LINKS)
@given(corpus=st.lists(links, min_size=1, max_size=4), index=st.sampled_from([0, 1]))
def test_links_are_read_as_they_were_written(format, corpus, index, tmp_path_factory):
    """Also where the reader finds out the format, by the first line with text."""
    corpus = [{(3, 4)}, *corpus]
    path = tmp_path_factory.mktemp("links") / "links"
    lines = (WRITERS[format](AlignedPair(sorted(pair)), index) for pair in corpus)
    path.write_text("".join(file_lines(lines, format)))
    for told in ("auto", format):
        file = LinkFile(path, index=index, format=told)
        # A NAACL file does not say that the last pairs have no links.
        numbers = InMemory("the corpus", range(len(corpus)))
        assert [found for found, _ in read_together(file, numbers)] == corpus


@pytest.mark.parametrize(
    "line", ["{", '{"links": 3}', '{"links": [[0]]}', '{"links": [[0.5, 1]]}', "[]", '{"a": NaN}']
)
def test_a_bad_line_of_json_is_named(line, tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(f'{{"links": []}}\n{line}\n')
    with pytest.raises(InputError, match=r"x\.jsonl:2: bad line .*; expected an object whose"):
        list(LinkFile(path))
