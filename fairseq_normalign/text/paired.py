"""The texts of a corpus: files of lines, one of lines ``source ||| target``, or a log of fairseq.

The log is what ``fairseq-generate`` and ``fairseq-interactive`` print.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, tee, zip_longest
from operator import itemgetter
from pathlib import Path
from typing import Any

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import is_stream, name_of, read_lines, split_words
from fairseq_normalign.text.words import LineFile

BETWEEN = re.compile(r"(?:^|\s)\|\|\|(?:\s|$)")  # as fast_align has it


class Side(LineFile):
    """The sources or the targets of a file of pairs.

    Args:
        place: 0 for sources, 1 for targets.
        pairs: those of a stream, which cannot be opened for each side.
    """

    def __init__(self, path: str, place: int, pairs: Iterable[tuple[str, str]] | None = None):
        super().__init__(path)
        self.place, self.pairs = place, pairs

    def __iter__(self) -> Iterator[Any]:
        pairs = read_pairs(str(self.path)) if self.pairs is None else self.pairs
        return map(itemgetter(self.place), pairs)


class Sources(LineFile):
    """The sources where targets are not needed: plain lines, or the first halves of pairs."""

    def __iter__(self) -> Iterator[Any]:
        lines = read_lines(self.path)
        first = next(lines, None)
        if first is None:
            return iter(())
        lines = chain([first], lines)
        if not BETWEEN.search(first):
            return lines
        return (source for source, _ in _divided(lines, str(self.path)))


def text_sides(source: str, target: str | None) -> list[LineFile]:
    """Sources and targets, to be read together; without a file of targets, SOURCE has pairs."""
    if target is not None:
        return [LineFile(source), LineFile(target)]
    if is_stream(source):
        both = tee(read_pairs(source))
        return [Side(source, place, pairs) for place, pairs in enumerate(both)]
    return [Side(source, 0), Side(source, 1)]


def read_words(files: Sequence[str]) -> Iterator[tuple[list[str], list[str]]]:
    """The words of each pair of a source and a target file, or of one file of pairs."""
    sides = text_sides(files[0], files[1] if len(files) > 1 else None)
    for number, pair in enumerate(zip_longest(*sides), 1):
        if None in pair:
            raise InputError(
                f"{name_of(files[pair.index(None)])}: has only {number - 1} lines, and "
                f"{name_of(files[1 - pair.index(None)])} has more; each needs one line per "
                "sentence pair"
            )
        yield pair[0].split(), pair[1].split()


def read_pairs(path: str) -> Iterator[tuple[str, str]]:
    return _divided(read_lines(path), path)


def _divided(lines: Iterable[str], path: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        sides = BETWEEN.split(line)
        if len(sides) != 2:
            raise InputError(
                f"{name_of(path)}:{number}: not a line 'source ||| target'; if this file has "
                "sources alone, name the file of targets behind it"
            )
        yield sides[0], sides[1]


PRINTED = re.compile(r"([SH])-([0-9]{1,18})\t(.*)")  # fairseq's numbers fit 64 bits


def read_printed(path: str | Path) -> tuple[list[list[str]], list[list[str]]] | None:
    """Sources and best hypotheses of a generation log, in the corpus's order; None if it is no log.

    The log has lines ``S-12 TAB source`` and ``H-12 TAB score TAB hypothesis``, sentences in any
    order, the best hypothesis of each first, among other lines.
    """
    sources: dict[int, list[str]] = {}
    hypotheses: dict[int, list[str]] = {}
    for match in filter(None, map(PRINTED.match, read_lines(path))):
        kind, number, text = match.groups()
        if kind == "S":
            sources.setdefault(int(number), split_words(text))
        else:
            _, _, hypothesis = text.partition("\t")
            hypotheses.setdefault(int(number), split_words(hypothesis))
    if not hypotheses:
        return None
    order = range(max(hypotheses) + 1)
    for number in order:  # ends early: a gap comes before many numbers do
        if number not in sources or number not in hypotheses:
            raise InputError(
                f"{name_of(path)}: sentence {number} has no S- or no H- line; is the log complete? "
                "(fairseq leaves out the last batch: generate with --required-batch-size-multiple "
                "1)"
            )
    return [sources[number] for number in order], [hypotheses[number] for number in order]
