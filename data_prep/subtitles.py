"""How well the times of aligned subtitles agree, as OPUS tells it.

The alignment of OpenSubtitles lists, document by document, which sentences belong together and
which part of the time they share: ``<link id="SL1" xtargets="1 2;1" overlap="0.873" />``. The text
comes in a file of its own, with a file of ids beside it that has a line for each pair.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, zip_longest
from operator import itemgetter
from pathlib import Path

from lines import read_lines
from selection import Pair

from fairseq_normalign.errors import InputError

GROUP = re.compile(r"<linkGrp\b(?=.*?\bfromDoc=\"(.*?)\")(?=.*?\btoDoc=\"(.*?)\")")
LINK = re.compile(r"<link\b(?=.*?\bxtargets=\"(.*?);(.*?)\")(?:(?=.*?\boverlap=\"(.*?)\"))?")

Documents = tuple[str, str]
Sentences = tuple[str, str]  # of both documents: "1 2", "1"


def links(alignment: Path) -> Iterator[tuple[Documents, Sentences, float]]:
    """The links of an XCES file with their overlap, which is 0 where none is told."""
    documents = ("", "")
    for line in read_lines(alignment):
        group = GROUP.search(line)
        if group:
            documents = group[1], group[2]
        link = LINK.search(line)
        if link:
            yield documents, (link[1], link[2]), float(link[3] or 0)


def links_of_documents(alignment: Path) -> Iterator[tuple[Documents, dict[Sentences, float]]]:
    """The overlaps of all sentences of each pair of documents."""
    for documents, of_documents in groupby(links(alignment), key=itemgetter(0)):
        yield documents, {sentences: overlap for _, sentences, overlap in of_documents}


def overlaps(ids: Path, alignment: Path) -> Iterator[float]:
    """The overlap of each pair in a file of ids, in its order.

    Documents are in the same order in both files. Those without text have no ids.
    """
    others = links_of_documents(alignment)
    documents: Documents = ("", "")
    known: dict[Sentences, float] = {}
    for number, line in enumerate(read_lines(ids), start=1):
        fields = line.split("\t")
        if len(fields) != 4:
            raise InputError(f"{ids}:{number}: {len(fields)} columns; expected 4")
        if documents != (fields[0], fields[1]):
            documents = fields[0], fields[1]
            known = next((found for pair, found in others if pair == documents), {})
        sentences = fields[2], fields[3]
        if sentences not in known:
            raise InputError(
                f"{ids}:{number}: not among the links of {alignment}; expected documents in the "
                "same order"
            )
        yield known[sentences]


def overlapping(pairs: Iterable[Pair], ids: Path, alignment: Path, least: float) -> Iterator[Pair]:
    """Pairs whose subtitles are shown at the same time for at least a share `least`."""
    for pair, overlap in zip_longest(pairs, overlaps(ids, alignment)):
        if pair is None or overlap is None:
            raise InputError(f"{ids}: not as many lines as the text; expected one for each pair")
        if overlap >= least:
            yield pair
