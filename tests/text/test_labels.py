"""Labels and terms carried over: tables."""

from __future__ import annotations

import json

import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.labels import (
    check_terms,
    project_labels,
    project_spans,
    read_conll,
    read_glossary,
    read_labels,
    read_spans,
    written,
)
from fairseq_normalign.text.offsets import blank_words


def links(text: str) -> list[tuple[int, int]]:
    return [tuple(map(int, link.split("-"))) for link in text.split()]


@pytest.mark.parametrize(
    ("labels", "pairs", "expected"),
    [
        ("B-A I-A O", "0-0 1-1 2-2", "B-A I-A O O"),
        ("B-A I-A O", "0-0 1-2", "B-A I-A I-A O"),  # a gap of one unlinked word
        ("B-A I-A O", "0-0 1-3 2-1", "B-A I-A I-A I-A"),  # the smallest span that covers
        ("B-A I-A B-B", "0-0 1-2 2-1", "B-A B-B O O"),  # split
        ("B-A I-A I-A B-B", "0-0 1-2 2-3 3-1", "O B-B B-A I-A"),  # most linked words
        ("I-A I-A I-B", "0-0 1-1 2-2", "B-A I-A B-B O"),  # IOB1
        ("S-A B-B E-B", "0-0 1-1 2-2", "B-A B-B I-B O"),  # BIOES
        ("B-A O O", "1-0", "O O O O"),  # lost
    ],
)
def test_labels(labels, pairs, expected):
    assert project_labels(labels.split(), list("wxyz"), links(pairs)) == expected.split()


@pytest.mark.parametrize(
    ("pairs", "outcomes"),
    [
        ("0-0 1-1", ["projected", "lost"]),
        ("0-0 1-3", ["projected", "lost"]),
        ("0-0 1-2 2-1", ["split", "projected"]),
        ("2-0", ["lost", "projected"]),
    ],
)
def test_outcomes(pairs, outcomes):
    spans = read_labels(["B-A", "I-A", "B-B"])
    assert project_spans(spans, links(pairs))[1] == outcomes


def test_bad_labels():
    with pytest.raises(InputError, match="bad label 'PER'; expected O, B-NAME or I-NAME"):
        project_labels(["PER"], ["x"], [])


@pytest.mark.parametrize(
    ("target", "status"), [("the house", "ok"), ("the home", "missing"), ("house the", "elsewhere")]
)
def test_terms(target, status):
    (use,) = check_terms("das Haus", target, [(0, 0), (1, 1)], {"haus": ["house"]})
    assert use.status == status
    assert use.translation == target.split()[1]


def test_the_longest_term_is_taken():
    glossary = {"haus": ["house"], "haus am see": ["lake house"]}
    (use,) = check_terms("haus am see", "lake house", [(0, 1), (2, 0)], glossary)
    assert (use.term, use.status) == ("haus am see", "ok")


def test_terms_without_case(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("Haus\thouse\tn\nhaus\thome\n")
    assert read_glossary(str(path)) == {"Haus": ["house", "home"]}


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        # An emoji and an accent of its own are a character each.
        ([[5, 9, "LOC"]], [[0, 4, "LOC"]]),
        ([[6, 8, "LOC"]], [[0, 4, "LOC"]]),  # a part of a word takes it whole
        ([[4, 5, "A"]], []),  # between words: lost
    ],
)
def test_spans_count_characters(spans, expected):
    line = json.dumps({"text": "😀 in Bönn e\u0301", "spans": spans})
    sentence = read_spans(line, blank_words)
    target = "Bonn ist e\u0301 😀"
    found, outcomes = project_spans(sentence.spans, [(2, 0), (3, 2)])
    item = json.loads(written(sentence, target, blank_words(target), found))
    assert item == {"text": target, "spans": expected}
    assert outcomes == ["projected" if expected else "lost"]


def test_overlapping_spans():
    line = '{"text": "in Bonn", "spans": [[0, 4, "A"], [2, 3, "C"], [3, 7, "B"]]}'
    with pytest.raises(InputError, match=r"span \[3, 7, 'B'\] overlaps another"):
        read_spans(line, blank_words)


def test_a_bad_label_is_named_by_its_line():
    with pytest.raises(InputError, match=r"a\.conll:2: bad label 'LOC'"):
        list(read_conll(["in O", "Bonn LOC"], "a.conll"))


def test_a_glossary_of_one_column(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("haus\thouse\nsee\n")
    with pytest.raises(InputError, match=r"terms\.tsv:2: one column: 'see'; expected a term, a"):
        read_glossary(str(path))
