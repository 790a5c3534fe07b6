"""Mixing ratios over a corpus: means by layer and category, and their relation to frequency."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from fairseq_normalign.layers.analyses import ANALYSES
from fairseq_normalign.layers.means import CategoryMeans
from fairseq_normalign.layers.sample import Sample


@dataclass
class MixingTally:
    """Of the blocks of one kind of attention, as batches come."""

    categories: int
    by_layer: dict[int, CategoryMeans] = field(default_factory=dict)
    sample: Sample = field(default_factory=lambda: Sample(2 + len(ANALYSES)))

    def add(self, layers: dict[int, Tensor], categories: Tensor, ranks: Tensor, special: Tensor):
        """Adds a batch.

        Args:
            layers: the mixing ratios of each layer, (5, B, T).
            categories: of the queries, -1 for padding, (B, T).
            ranks: their frequency ranks, nan for what is left out, (B, T).
            special: whether they belong to no word, (B, T).
        """
        for layer, ratios in layers.items():
            empty = CategoryMeans(len(ANALYSES), self.categories)
            self.by_layer.setdefault(layer, empty).add(ratios, categories)
        # Of each occurrence of a token, the mean over layers (Kobayashi et al., 2021).
        means = torch.stack(list(layers.values())).mean(0)  # (5, B, T)
        counted = categories.ge(0) & ranks.isfinite()
        columns = [ranks, special.to(ranks.dtype), *means.to(ranks.dtype)]
        rows = torch.stack([column[counted] for column in columns], dim=-1)  # (N, 7)
        self.sample.add(rows.cpu().numpy())

    def macro(self) -> np.ndarray:
        """Means over a sentence, then over sentences, (L, 5, K+1)."""
        return np.stack([self.by_layer[layer].macro() for layer in sorted(self.by_layer)])

    def micro(self) -> np.ndarray:
        """Means over all tokens, (L, 5, K+1)."""
        return np.stack([self.by_layer[layer].micro() for layer in sorted(self.by_layer)])

    def extremes(self) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest ratio of any token and layer, (5,) each."""
        low = np.stack([means.low for means in self.by_layer.values()]).min(0)
        high = np.stack([means.high for means in self.by_layer.values()]).max(0)
        return low, high

    def tokens(self) -> np.ndarray:
        """How many tokens each category has, and overall, (K+1,)."""
        return next(iter(self.by_layer.values())).tokens

    def occurrences(self, *, specials: bool) -> tuple[np.ndarray, np.ndarray]:
        """Frequency ranks (N,) and ratios (5, N) of occurrences of tokens, perhaps a sample."""
        rows = self.sample.rows()
        if not specials:
            rows = rows[rows[:, 1] == 0]
        return rows[:, 0], rows[:, 2:].T
