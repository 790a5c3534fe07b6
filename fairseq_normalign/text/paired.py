"""The texts of a corpus: files of lines, one of lines ``source ||| target``, or a log of fairseq.

The log is what ``fairseq-generate`` and ``fairseq-interactive`` print.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice, tee
from operator import itemgetter
from pathlib import Path

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import is_stream, name_of, read_lines, split_words
from fairseq_normalign.text.links import read_together
from fairseq_normalign.text.words import TextFile

BETWEEN = re.compile(r"(?:^|\s)\|\|\|(?:\s|$)")  # as fast_align has it


def text_sides(source: str, target: str | None = None) -> list[TextFile]:
    """Sources and targets, to be read together; without a file of targets, SOURCE has pairs."""
    if target is not None:
        return [TextFile(source, read_lines), TextFile(target, read_lines)]
    if is_stream(source):  # which cannot be opened for each side
        both = tee(_divided(read_lines(source), source))
        sources, targets = (map(itemgetter(side), pairs) for side, pairs in enumerate(both))
        return [TextFile(source, lambda path: sources), TextFile(source, lambda path: targets)]
    return [TextFile(source, partial(read_side, side=side)) for side in (0, 1)]


def read_side(path: str | Path, side: int) -> Iterator[str]:
    """The sources (0) or the targets (1) of a file of pairs."""
    return map(itemgetter(side), _divided(read_lines(path), path))


def read_sources(path: str | Path) -> Iterator[str]:
    """Where targets are not needed: plain lines, or the first halves of pairs."""
    lines = read_lines(path)
    first = list(islice(lines, 1))
    lines = chain(first, lines)
    if not any(map(BETWEEN.search, first)):
        return lines
    return (source for source, _ in _divided(lines, path))


def read_words(files: Sequence[str]) -> Iterator[tuple[list[str], list[str]]]:
    """The words of each pair of a source and a target file, or of one file of pairs."""
    for source, target in read_together(*text_sides(*files)):
        yield source.split(), target.split()


def _divided(lines: Iterable[str], path: str | Path) -> Iterator[tuple[str, str]]:
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
    printed: dict[str, dict[int, list[str]]] = {"S": {}, "H": {}}
    for match in filter(None, map(PRINTED.match, read_lines(path))):
        kind, number, text = match.groups()
        if kind == "H":
            _, _, text = text.partition("\t")
        printed[kind].setdefault(int(number), split_words(text))
    sources, hypotheses = printed.values()
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
