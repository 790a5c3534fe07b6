"""Soft alignments as few bytes: rounded, with the links in the same bytes, deflated, as text.

A cell is one byte. Its low seven bits hold the share that a target word takes from a source word,
as a number of steps; its highest bit says whether the two are linked. The page unpacks a sentence
when it is looked at.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from fairseq_normalign.attention.extract import row_shares
from fairseq_normalign.attention.soft import Evidence, Soft
from fairseq_normalign.text.links import Link

LINKED = 0x80
UNDEFINED = 0xFFFF  # an error rate of no links at all
PER_THOUSAND = 1000


class Quality(NamedTuple):
    """How shares are rounded."""

    levels: int  # a share is a number of steps of 1 / levels
    floor: float  # smaller shares count as none


FINEST = Quality(127, 0.0)  # of whole layers, always

# Of single heads, from the finest. What deflate makes of a corpus depends most on how many small
# shares are left.
QUALITIES = (
    FINEST,
    Quality(127, 0.01),
    Quality(127, 0.02),
    Quality(63, 0.03),
    Quality(63, 0.05),
    Quality(47, 0.05),
    Quality(31, 0.05),
    Quality(15, 0.05),
)


def rounded(shares: np.ndarray, links: Iterable[Link], quality: Quality) -> np.ndarray:
    """Shares (T, S+1) and links as bytes: round(levels · share), and the highest bit of links."""
    steps = np.rint(shares * quality.levels)
    steps[shares < quality.floor] = 0
    cells = steps.astype(np.uint8)
    for source, target in links:
        cells[target, source] |= LINKED
    return cells


def shares_of(soft: Soft, *, null: bool) -> np.ndarray:
    """What each target word takes, as shares of its row: source words, then </s>; (T, S+1).

    Args:
        null: whether </s> takes part; it has no share otherwise.
    """
    of_eos = soft.null if null else np.zeros_like(soft.null)
    return row_shares(np.column_stack([soft.words, of_eos]))


def packed_sentence(
    shares: Sequence[np.ndarray], links: Sequence[Iterable[Link]], qualities: Sequence[Quality]
) -> str:
    """All soft alignments of a sentence pair, one after the other, as base64 text.

    Args:
        qualities: of each soft alignment.
    """
    cells = []
    for of_evidence, linked, quality in zip(shares, links, qualities, strict=True):
        cells.append(rounded(of_evidence, linked, quality).tobytes())
    return packed(b"".join(cells))


def qualities_of(evidences: Iterable[Evidence], of_heads: Quality) -> list[Quality]:
    """The quality of each evidence: whole layers are what people look at most."""
    return [FINEST if evidence.head is None else of_heads for evidence in evidences]


def packed(contents: bytes) -> str:
    """Bytes deflated, in base64: what the page unpacks with DecompressionStream."""
    # Neighbours in a row have little to do with each other: matches of a few bytes cost more than
    # they save.
    deflate = zlib.compressobj(9, strategy=zlib.Z_FILTERED)
    return base64.b64encode(deflate.compress(contents) + deflate.flush()).decode("ascii")


def packed_error_rates(aers: np.ndarray) -> str:
    """Error rates (N, E) in thousandths, two bytes each, little-endian; nan is UNDEFINED."""
    thousandths = np.where(np.isnan(aers), UNDEFINED, np.rint(aers * PER_THOUSAND))
    return packed(thousandths.astype("<u2").tobytes())
