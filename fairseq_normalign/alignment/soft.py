"""Soft word alignments as plain data: where they come from, and what they hold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Which decoder row stands for target token j: the one that reads it (align with input, AWI) or the
# one that predicts it (align with output, AWO). Row 0 reads </s> and predicts token 0.
STEPS = {"input": 1, "output": 0}

EOS = ("null", "skip")  # what becomes of a word that takes most from the source's </s>


class Evidence(NamedTuple):
    """Where a soft alignment comes from. Layer and head count from 0; no head means all of them.

    Methods of ``LRP`` are of no layer: it is 0.
    """

    method: str = "norms"
    layer: int = 0
    step: str = "input"
    head: int | None = None


class Soft(NamedTuple):
    """A soft word alignment: what each target word takes from each source word, and from the
    source's </s>."""

    words: np.ndarray  # (T, S)
    null: np.ndarray  # (T,)
