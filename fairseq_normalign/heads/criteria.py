"""When a head is said to have a role, and when its gate to be closed.

Imports no PyTorch: ``--help`` reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

POSITIONAL = 0.9  # of the maxima on one relative position (Voita et al., 2019)
RARE = 0.5  # of the maxima on the rarest token; the paper names no threshold
# Only sentences whose rarest token is outside so many most frequent ones count (Voita et al., 2019)
RARE_TOP = 500

# What a head can be for: the paper's three functions, and looking at the end of the sentence.
FUNCTIONS = ("positional", "syntactic", "rare", "last")

# What accuracy makes a head syntactic, given that of the best fixed offset: 10 % above it, or 10
# points (the paper's text allows both).
MARGINS = {
    "relative": lambda baseline: 1.1 * baseline,
    "absolute": lambda baseline: 0.1 + baseline,
}

CLOSE_RULES = ("value", "paper")  # when a gate is closed at test time; see gates.evaluation_gates

# Which </s> is left out of confidence: as a candidate for the maximum, or also as a query. The
# paper's wording leaves both open.
CONFIDENCE_EOS = ("key", "both")


@dataclass(frozen=True)
class Criteria:
    """The thresholds that roles are awarded by."""

    positional: float = POSITIONAL
    rare: float = RARE
    margin: str = "relative"
