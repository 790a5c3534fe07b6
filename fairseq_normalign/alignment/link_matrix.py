"""Hard links as matrices, (T, S)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import Link


def as_matrix(links: Iterable[Link], shape: tuple[int, ...]) -> np.ndarray:
    """True where there is a link."""
    matrix = np.zeros(shape, dtype=bool)
    for source, target in links:
        matrix[target, source] = True
    return matrix


def link_matrix(links: Iterable[Link], shape: tuple[int, int], where: str) -> np.ndarray:
    """1 where another aligner has a link; refuses links of words that are not there."""
    links = list(links)
    for source, target in links:
        if not (0 <= source < shape[1] and 0 <= target < shape[0]):
            raise InputError(
                f"{where}: another aligner's link {source}-{target} where there are {shape[1]} "
                f"source and {shape[0]} target words; expected links of the same pairs, "
                "source word first"
            )
    return as_matrix(links, shape).astype(np.float32)
