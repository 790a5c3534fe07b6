"""Overlaps of subtitles, from files in the manner of OPUS."""

from __future__ import annotations

import gzip

import pytest
from lines import write_lines
from subtitles import overlapping, overlaps

from fairseq_normalign.errors import InputError

LINKS = """<?xml version="1.0" encoding="utf-8"?>
<cesAlign version="1.0">
 <linkGrp targType="s" toDoc="ru/1/a.xml.gz" fromDoc="en/1/a.xml.gz" >
  <link id="SL1" xtargets="1;1" overlap="0.953" />
  <link id="SL2" xtargets="2 3;2" overlap="0.71" />
  <link id="SL3" xtargets="4;" />
  <link id="SL5" xtargets="6;4" />
 </linkGrp>
 <linkGrp fromDoc="en/1/b.xml.gz" toDoc="ru/1/b.xml.gz" targType="s">
  <link id="SL1" xtargets="1;1" overlap="0.99" />
 </linkGrp>
 <linkGrp fromDoc="en/2/c.xml.gz" toDoc="ru/2/c.xml.gz" targType="s">
  <link overlap="0.9" id="SL7" xtargets="1;1 2" />
 </linkGrp>
</cesAlign>
"""
IDS = [
    "en/1/a.xml.gz\tru/1/a.xml.gz\t2 3\t2",
    "en/1/a.xml.gz\tru/1/a.xml.gz\t1\t1",
    "en/1/a.xml.gz\tru/1/a.xml.gz\t6\t4",
    "en/2/c.xml.gz\tru/2/c.xml.gz\t1\t1 2",
]


def files(folder, ids):
    with gzip.open(folder / "links.xml.gz", "wt", encoding="utf-8") as file:
        file.write(LINKS)
    write_lines(folder / "ids", ids)
    return folder / "ids", folder / "links.xml.gz"


def test_overlaps_are_found_by_document_and_sentences(tmp_path):
    assert list(overlaps(*files(tmp_path, IDS))) == [0.71, 0.953, 0.0, 0.9]


def test_pairs_that_overlap(tmp_path):
    pairs = [("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")]
    assert list(overlapping(pairs, *files(tmp_path, IDS), 0.9)) == [("b", "B"), ("d", "D")]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (IDS[::-1], "ids:2: not among the links of .*; expected documents in the same order"),
        (["en/1/a.xml.gz\tru/1/a.xml.gz\t9\t9"], "ids:1: not among the links"),
        (["en/1/a.xml.gz ru/1/a.xml.gz 1 1"], "ids:1: 1 columns; expected 4"),
    ],
)
def test_ids_that_fit_no_link_are_refused(tmp_path, ids, message):
    with pytest.raises(InputError, match=message):
        list(overlaps(*files(tmp_path, ids)))
