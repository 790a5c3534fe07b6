"""Links of files, any aligner's, as the page's browser of alignments takes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairseq_normalign.alignment.link_matrix import link_matrix
from fairseq_normalign.attention.extract import row_shares
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.errors import InputError
from fairseq_normalign.report.html.browser import System, TextPair, View
from fairseq_normalign.report.html.packing import FINEST
from fairseq_normalign.text.links import LinkFile

LINKS = Evidence("links", None, "")


def system_of_links(
    path: str, name: str, texts: Sequence[TextPair], languages: tuple[str, str], total: int | None
) -> System:
    """The links of a file that has a line for each pair of the corpus, words from 0.

    Args:
        texts: the pairs that can be browsed.
        total: how many pairs the corpus has, if that is known.
    """
    system = System(name, [LINKS], {LINKS.method: LINKS}, languages, soft=False)
    text_at = {text.line: text for text in texts}
    lines = 0
    for lines, links in enumerate(LinkFile(path), 1):
        if lines in text_at:
            text = text_at[lines]
            shape = len(text.target), len(text.source)
            linked = link_matrix(links, shape, f"{path}:{lines}")
            of_eos = np.zeros((shape[0], 1))
            shares = row_shares(np.hstack([linked, of_eos]))
            system.add(text, View([shares], [sorted(links)]), FINEST)
    expected = texts[-1].line if total is None else total
    if lines < texts[-1].line or total not in (None, lines):
        raise InputError(f"{path}: has {lines} lines; expected {expected}, one for each pair")
    return system
