"""Translations to be aligned: one a line, or as ``fairseq-generate`` and ``fairseq-interactive``
print them."""

from __future__ import annotations

import re
from pathlib import Path

from fairseq_normalign.alignment.words import split_words
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import name_of, read_lines

PRINTED = re.compile(r"([SH])-(\d+)\t(.*)")


def read_printed(path: str | Path) -> tuple[list[list[str]], list[list[str]]] | None:
    """Sources and best hypotheses of a generation log, in the order of the corpus; None if it is no
    such log.

    The log has lines ``S-12 TAB source`` and ``H-12 TAB score TAB hypothesis``, sentences in any
    order, the best hypothesis of each first, among other lines.
    """
    found: dict[str, dict[int, list[str]]] = {"S": {}, "H": {}}
    for match in filter(None, map(PRINTED.match, read_lines(path))):
        kind, number, text = match.groups()
        words = split_words(text.partition("\t")[2] if kind == "H" else text)
        found[kind].setdefault(int(number), words)
    sources, hypotheses = found["S"], found["H"]
    if not hypotheses:
        return None
    missing = [
        number
        for number in range(max(hypotheses) + 1)
        if number not in hypotheses or number not in sources
    ]
    if missing:
        raise InputError(
            f"{name_of(path)}: sentence {missing[0]} has no S- or no H- line; is the log complete? "
            "(fairseq leaves out the last batch: generate with --required-batch-size-multiple 1)"
        )
    return [sources[n] for n in sorted(hypotheses)], [hypotheses[n] for n in sorted(hypotheses)]
