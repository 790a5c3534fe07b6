"""Translations to be aligned: one a line, or as fairseq prints them.

``fairseq-generate`` and ``fairseq-interactive`` print the same.
"""

from __future__ import annotations

import re
from pathlib import Path

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import name_of, read_lines, split_words

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
