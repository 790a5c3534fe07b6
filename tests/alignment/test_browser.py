"""Soft alignments as bytes, against a slow twin that takes them apart again."""

import base64
import zlib

import numpy as np
import pytest

from fairseq_normalign.alignment.browser import (
    LINKED,
    UNDEFINED,
    System,
    packed_error_rates,
    system_of_links,
)
from fairseq_normalign.attention.extract import shares_of
from fairseq_normalign.attention.soft import Soft
from fairseq_normalign.errors import InputError
from tests.results.made_up import EVIDENCES, PAIRS, view_of


def unpacked(text):
    return zlib.decompress(base64.b64decode(text))


def slow_cells(shares, links, levels, floor):
    """Each cell by itself: the number of steps, and 128 more if it is a link."""
    cells = []
    for target, row in enumerate(shares):
        for source, share in enumerate(row):
            steps = round(levels * share) if share >= floor else 0
            cells.append(steps + 128 * ((source, target) in links))
    return cells


def test_cells_are_those_of_the_slow_twin():
    system = System("x", EVIDENCES, [])
    for place, pair in enumerate(PAIRS):
        view = view_of(pair, place)
        size = system.add(pair, *view)
        expected = []
        for evidence, shares, links in zip(EVIDENCES, *view, strict=True):
            quality = (127, 0) if evidence.head is None else (63, 0.03)
            expected += slow_cells(shares, links, *quality)
        assert list(unpacked(system.packed[place])) == expected
        assert size == len(system.packed[place])


def test_shares_with_and_without_the_end_of_the_sentence():
    soft = Soft(np.array([[1.0, 2.0], [0.0, 0.0]]), np.array([1.0, 0.0]))
    np.testing.assert_allclose(shares_of(soft, null=True), [[0.25, 0.5, 0.25], [0, 0, 0]])
    np.testing.assert_allclose(shares_of(soft, null=False), [[1 / 3, 2 / 3, 0], [0, 0, 0]])


def test_error_rates_in_thousandths():
    packed = packed_error_rates(np.array([[0.1234, 1.0], [np.nan, 0.0]]))
    numbers = np.frombuffer(unpacked(packed), "<u2").tolist()
    assert numbers == [123, 1000, UNDEFINED, 0]


LINES = ["0-0 2-2 2-1", "1-1", "5-5", "0-2", ""]  # line 3 is of a pair that is left out


def system_of(folder, lines, total=5):
    path = folder / "links"
    path.write_text("".join(f"{line}\n" for line in lines))
    return system_of_links(str(path), "links", PAIRS, ("de", "en"), total)


@pytest.mark.parametrize("total", [5, None])
def test_links_are_cells_and_have_error_rates(tmp_path, total):
    system = system_of(tmp_path, LINES, total)
    assert len(system.packed) == len(PAIRS)
    cells = np.frombuffer(unpacked(system.packed[0]), np.uint8)
    rows = cells.reshape(3, 4)  # a house . ← ein haus . </s>
    assert np.argwhere(rows & LINKED).tolist() == [[0, 0], [1, 2], [2, 2]]
    assert system.as_json()["soft"] is False
    # Of three links one is sure, and there is one sure link in all: 1 - (1 + 1) / (3 + 1).
    assert system.aers[0] == [0.5]


def test_links_of_another_corpus_are_refused(tmp_path):
    with pytest.raises(InputError, match="links: has 4 lines; the corpus has 5 pairs"):
        system_of(tmp_path, LINES[:4], total=None)
    with pytest.raises(InputError, match=r"links:1: link 3-0 where there are 3"):
        system_of(tmp_path, ["3-0", *LINES[1:]])
