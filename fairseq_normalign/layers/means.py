"""Means over tokens of each category, as batches come."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def memberships(categories: Tensor, number: int) -> Tensor:
    """1 where a token is of a category, (B, T, K+1) for K categories and overall, the last one.

    Args:
        categories: of each token, from 0; -1 for padding, (B, T).
    """
    of_category = categories.unsqueeze(-1) == torch.arange(number, device=categories.device)
    of_any = categories.ge(0).unsqueeze(-1)
    return torch.cat([of_category, of_any], dim=-1).double()


class CategoryMeans:
    """Means of some quantities of tokens, by category and overall.

    Micro: over all tokens. Macro: over the tokens of a sentence, then over the sentences that have
    any (Kobayashi et al., 2021).
    """

    def __init__(self, quantities: int, categories: int):
        shape = (quantities, categories + 1)
        self.categories = categories
        self.sums = np.zeros(shape)
        self.sums_of_means = np.zeros(shape)
        self.tokens = np.zeros(categories + 1, dtype=np.int64)
        self.sentences = np.zeros(categories + 1, dtype=np.int64)
        self.low = np.full(quantities, np.inf)
        self.high = np.full(quantities, -np.inf)

    def add(self, values: Tensor, categories: Tensor) -> None:
        """Adds a batch: quantities of tokens (Q, B, T), and the category of each token (B, T)."""
        members = memberships(categories, self.categories)  # (B, T, K+1)
        counts = members.sum(1)  # (B, K+1)
        sums = torch.einsum("qbt,btk->qbk", values.double(), members)
        self.sums += sums.sum(1).cpu().numpy()
        self.sums_of_means += (sums / counts.clamp(min=1)).sum(1).cpu().numpy()
        self.tokens += counts.sum(0).long().cpu().numpy()
        self.sentences += counts.gt(0).sum(0).cpu().numpy()
        of_tokens = values[:, categories >= 0]  # (Q, N)
        if of_tokens.shape[1]:
            self.low = np.minimum(self.low, of_tokens.amin(1).cpu().numpy())
            self.high = np.maximum(self.high, of_tokens.amax(1).cpu().numpy())

    def micro(self) -> np.ndarray:
        """(Q, K+1); nan where there are no tokens."""
        return _divided(self.sums, self.tokens)

    def macro(self) -> np.ndarray:
        """(Q, K+1); nan where there are no tokens."""
        return _divided(self.sums_of_means, self.sentences)


def _divided(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
