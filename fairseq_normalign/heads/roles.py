"""What a head looks at: a position, the rarest token, or the other end of a syntactic relation.

These are the roles of Voita et al. (2019).

Everything is read off the maxima of the weights. Marks such as </s> are never counted as a maximum,
except in the pattern ``last``.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fairseq_normalign.heads.cells import Cells, by_head, choosing, maxima

# Raganato and Tiedemann (2018); their fourth is `last`.
PATTERNS = {"itself": 0, "previous": -1, "next": 1}


def offsets(weights: Tensor, seen: Cells) -> Tensor:
    """Where the maximum of each word lies relative to it, (H, N), in self-attention.

    Words without a choice are left out.
    """
    positions = torch.arange(weights.shape[2], device=weights.device)
    return by_head(maxima(weights, seen.words) - positions, choosing(seen))


def last_hits(weights: Tensor, seen: Cells) -> tuple[Tensor, int]:
    """How many words have their maximum on the last token, by head, (H,); and of how many words.

    The last token of a sentence is usually </s>.

    Raganato and Tiedemann (2018) name this pattern with the end of sentence as a token: here, marks
    count.
    """
    last = seen.visible.any(1).sum(1) - 1  # (B,)
    hits = maxima(weights, seen.visible) == last[:, None, None]
    return by_head(hits, choosing(seen)).sum(1), int(choosing(seen).sum())


def rarest(frequencies: Tensor, keys: Tensor, *, rank: int = 1) -> Tensor:
    """Tokens of a sentence whose frequency is among its ``rank`` lowest, (B, S).

    Equal ones share a place.

    Args:
        frequencies: of each token in the training data, (B, S).
        keys: tokens that are words, (B, S).
    """
    ordered = frequencies.masked_fill(~keys, float("inf")).sort(1).values
    differs = ordered[:, 1:] != ordered[:, :-1]  # from the one before
    place = functional.pad(differs, (1, 0)).cumsum(1)  # from 0
    bar = ordered.masked_fill(place >= rank, 0).amax(1, keepdim=True)
    return keys & (frequencies <= bar)


def rare_hits(
    weights: Tensor, seen: Cells, rare: Tensor, examined: Tensor
) -> dict[str, tuple[Tensor, int]]:
    """How often the maximum is on a rare token, by head, (H,), and of how many cases.

    ``tokens``: words whose maximum is a rare token; ``sentences``: sentences where the token that
    gets most weight from all words together is one; ``chance``: the share of rare tokens among
    those seen, as if the maximum were any.

    Args:
        rare: tokens that count as rare, (B, S).
        examined: sentences to look at, (B,).
    """
    queries = choosing(seen) & examined[:, None]  # (B, T)
    keys = seen.words & queries[:, :, None]
    rare_at = rare.unsqueeze(1).expand(weights.shape[:2] + rare.shape[1:])  # (B, H, S)
    hits = rare_at.gather(2, maxima(weights, seen.words))  # (B, H, T)
    together = (weights * keys.unsqueeze(1)).sum(2, keepdim=True)  # (B, H, 1, S)
    favourites = rare_at.gather(2, maxima(together, keys.any(1, keepdim=True)))  # (B, H, 1)
    sentences = queries.any(1, keepdim=True)  # (B, 1)
    chance = (keys & rare.unsqueeze(1)).sum(2) / keys.sum(2).clamp(min=1)  # (B, T)
    return {
        "tokens": (by_head(hits, queries).sum(1), int(queries.sum())),
        "sentences": (by_head(favourites, sentences).sum(1), int(sentences.sum())),
        "chance": (chance.sum().expand(weights.shape[1]), int(queries.sum())),
    }


def rare_influence(relevance: np.ndarray, words: np.ndarray, rare: np.ndarray) -> float | None:
    """How many times the relevance of a word's token the rare ones have, mean over predictions.

    1 is what they have if all tokens count alike. Relevance counts by its absolute value; None if
    nothing is said: a single token, or no relevance in any.

    Args:
        relevance: of source tokens, (P, S).
        words: tokens that are words, (S,).
        rare: those of them that count as rare, (S,).
    """
    sizes = np.abs(relevance[:, words])  # (P, N)
    means = sizes.mean(1) if sizes.size else np.zeros(0)
    told = means > 0
    if sizes.shape[1] < 2 or not told.any():
        return None
    of_rare = sizes[:, rare[words]].mean(1)
    return float((of_rare[told] / means[told]).mean())


class Positions:
    """Relative positions of the maxima of some heads, as they come."""

    def __init__(self) -> None:
        self.counts: list[Counter] = []

    def add(self, relative: Tensor) -> None:
        """Adds positions relative to the query, (H, N), as :func:`offsets` gives them."""
        self.counts = self.counts or [Counter() for _ in relative]
        for counter, of_head in zip(self.counts, relative, strict=True):
            positions, cases = of_head.unique(return_counts=True)
            counter.update(dict(zip(positions.tolist(), cases.tolist(), strict=True)))

    def favourite(self, head: int) -> tuple[int, float] | None:
        """The most frequent position and its share; None without any case."""
        for position, _ in self.counts[head].most_common(1):
            return position, self.share(head, position)
        return None

    def share(self, head: int, offset: int) -> float:
        counts = self.counts[head]
        return counts[offset] / max(1, sum(counts.values()))
