"""Labels and terms carried over: tables."""

from __future__ import annotations

import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.labels import (
    check_terms,
    project_labels,
    project_spans,
    read_glossary,
    read_labels,
)


def links(text: str) -> list[tuple[int, int]]:
    return [tuple(map(int, link.split("-"))) for link in text.split()]


@pytest.mark.parametrize(
    ("labels", "pairs", "expected"),
    [
        ("B-A I-A O", "0-0 1-1 2-2", "B-A I-A O O"),
        ("B-A I-A O", "0-0 1-2", "B-A I-A I-A O"),  # a gap of one unlinked word
        ("B-A I-A O", "0-0 1-3 2-1", "B-A I-A I-A I-A"),  # the smallest span that covers
        ("B-A I-A B-B", "0-0 1-2 2-1", "B-A B-B O O"),  # split
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


def test_a_glossary_of_one_column(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("haus\thouse\nsee\n")
    with pytest.raises(
        InputError, match=r"terms\.tsv:2: one column: 'see'; expected a term, a tab"
    ):
        read_glossary(str(path))
