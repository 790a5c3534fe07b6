"""Alignments in the formats that other tools read; ``links`` reads those that hold links.

===============  ===============================================================================
``pharaoh``      ``0-0 1-2``: fast_align, eflomal, Moses, Marian's ``--guided-alignment``
``talp``         the same, counted from 1, as gold sets are
``naacl``        ``1 1 1 S``: sentence, source, target, sure; a line for each link, from 1
``jsonl``        an object for each pair: ``source``, ``target``, ``links``, ``shares``
``words``        ``haus<sep>house``: the two words of each link, as awesome-align writes them
``marian-soft``  for each target word the shares of the source words, ``</s>`` on both sides, as
                 ``marian-decoder --alignment soft`` writes them
===============  ===============================================================================
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fairseq_normalign.text.links import Link, format_links

DECIMALS = 4  # of shares in jsonl and marian-soft


class AlignedPair(NamedTuple):
    """What is known of a pair; links count from 0."""

    links: Sequence[Link]
    shares: Sequence[float] | None = None  # of each link
    source: Sequence[str] | None = None
    target: Sequence[str] | None = None
    soft: np.ndarray | None = None  # (T, S): shares of what each target word takes


def pharaoh(pair: AlignedPair, index: int = 0) -> str:
    """Links in ascending order, perhaps with their shares."""
    return format_links(pair.links, index=index, confidences=pair.shares)


def as_json(pair: AlignedPair, index: int = 0) -> str:
    """All that is known but the soft alignment."""
    contents: dict[str, Any] = {}
    if pair.source is not None and pair.target is not None:
        contents = {"source": list(pair.source), "target": list(pair.target)}
    places = sorted(range(len(pair.links)), key=pair.links.__getitem__)
    contents["links"] = [[number + index for number in pair.links[place]] for place in places]
    if pair.shares is not None:
        contents["shares"] = [round(pair.shares[place], DECIMALS) for place in places]
    return json.dumps(contents, ensure_ascii=False, allow_nan=False)


def word_pairs(pair: AlignedPair, index: int = 0) -> str:
    source, target = pair.source, pair.target
    assert source is not None and target is not None
    return " ".join(f"{source[s]}<sep>{target[t]}" for s, t in sorted(pair.links))


def marian_soft(pair: AlignedPair, index: int = 0) -> str:
    """What a row lacks of 1 is the source's ``</s>``, which the target's takes alone."""
    assert pair.soft is not None
    rows = []
    for shares in pair.soft.tolist():
        of_eos = max(0.0, 1 - sum(shares))
        rows.append([*shares, of_eos])
    sources = pair.soft.shape[1]
    rows.append([0.0] * sources + [1.0])
    return " ".join(",".join(f"{share:.{DECIMALS}f}" for share in row) for row in rows)


Writer = Callable[[AlignedPair, int], str]
# Each makes a line of a pair. naacl has a line for each link: see ``file_lines``.
WRITERS: dict[str, Writer] = {
    "pharaoh": pharaoh,
    "talp": pharaoh,
    "naacl": pharaoh,
    "jsonl": as_json,
    "words": word_pairs,
    "marian-soft": marian_soft,
}
OF_LINKS = ("pharaoh", "talp", "naacl", "jsonl")  # which need neither words nor soft alignments
WITH_SHARES = ("jsonl", "marian-soft")
FROM_1 = ("talp", "naacl")  # by custom


def file_lines(lines: Iterable[str], format: str, first: int = 1) -> Iterator[str]:
    """The lines of a file, with their ends, from what a writer made of each pair.

    Args:
        first: the number of the first pair.
    """
    for number, line in enumerate(lines, first):
        if format != "naacl":
            yield f"{line}\n"
            continue
        for token in line.split():
            link, _, share = token.partition(":")
            source, target = link.split("-")
            yield " ".join(filter(None, [str(number), source, target, "S", share])) + "\n"
