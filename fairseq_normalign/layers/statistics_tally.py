"""Statistics of α and ‖f(x)‖ over a corpus (Kobayashi et al., 2020, §4), as batches come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairseq_normalign.attention.block import Block
from fairseq_normalign.layers.means import memberships
from fairseq_normalign.layers.moments import Moments
from fairseq_normalign.layers.sample import Sample
from fairseq_normalign.layers.weight_and_norm import by_category, received_weights


class SeenTokens(NamedTuple):
    """The tokens of a batch, as queries and as keys."""

    queries: Tensor  # whether there is a token, (B, T)
    categories: Tensor  # of the keys, -1 for padding, (B, S)
    ranks: Tensor  # of the keys, nan for what is left out, (B, S)
    causal: bool  # whether a query sees only what is not behind it

    @property
    def visible(self) -> Tensor:
        """Whether a query sees a key, (B, T, S)."""
        visible = self.queries.unsqueeze(2) & self.categories.ge(0).unsqueeze(1)
        return visible.tril() if self.causal else visible


@dataclass
class LayerTally:
    """One attention: H heads, K categories."""

    transformed: Moments  # ‖f(x)‖ of each head
    inputs: Moments  # ‖x‖
    weights: np.ndarray  # Σ α over the keys of a category, mean over queries, (H, K)
    weighted: np.ndarray  # the same of ‖α f(x)‖; both are sums over sentences
    by_category: np.ndarray  # mean ‖f(x)‖ over the keys of a category, sum over sentences, (H, K)
    sentences: int
    having: np.ndarray  # sentences that have the category, (K,)

    @classmethod
    def empty(cls, heads: int, categories: int) -> LayerTally:
        zeros = np.zeros((heads, categories))
        having = np.zeros(categories, dtype=np.int64)
        return cls(Moments(heads), Moments(1), zeros.copy(), zeros.copy(), zeros.copy(), 0, having)


class StatisticsTally:
    """All attentions of one kind, those without heads left out."""

    def __init__(self, categories: int):
        self.categories = categories
        self.layers: dict[int, LayerTally] = {}
        self.cells = [Sample(2) for _ in range(categories)]  # α, ‖f(x)‖
        self.occurrences = Sample(4)  # rank, category, α, ‖f(x)‖

    def add(self, blocks: Mapping[int, Block], tokens: SeenTokens) -> None:
        """Adds a batch: the blocks that have heads, by layer, and the tokens that they see."""
        received, transformed = [], []
        for layer, block in blocks.items():
            norms = block.recorded.norms.transformed  # (B, H, S)
            weights = received_weights(block.recorded, tokens.queries)
            self._add_layer(layer, block, norms, weights, tokens.categories)
            self._add_cells(block, norms, tokens)
            received.append(weights.mean(1))
            transformed.append(norms.mean(1))
        if blocks:
            self._add_occurrences(
                torch.stack(received).mean(0), torch.stack(transformed).mean(0), tokens
            )

    def _add_layer(
        self, layer: int, block: Block, norms: Tensor, weights: Tensor, categories: Tensor
    ) -> None:
        heads = norms.shape[1]
        tally = self.layers.setdefault(layer, LayerTally.empty(heads, self.categories))
        is_token = categories >= 0  # (B, S)
        tally.transformed.add(norms.transpose(0, 1)[:, is_token].cpu().numpy())
        assert block.inputs is not None
        lengths = block.inputs.to(norms.dtype).norm(dim=-1)[is_token]
        tally.inputs.add(lengths.unsqueeze(0).cpu().numpy())
        members = memberships(categories, self.categories)[..., :-1]  # (B, S, K)
        counts = members.sum(1)  # (B, K)
        tally.weights += _summed(by_category(weights, members))
        tally.weighted += _summed(by_category(weights * norms, members))
        means = by_category(norms, members) / counts.clamp(min=1).unsqueeze(1)
        tally.by_category += _summed(means)
        tally.sentences += len(categories)
        tally.having += counts.gt(0).sum(0).cpu().numpy()

    def _add_cells(self, block: Block, norms: Tensor, tokens: SeenTokens) -> None:
        """Cells that a query sees, of each category of their keys, all heads together."""
        heads = norms.shape[1]
        weights = block.recorded.weights.float().cpu().numpy()
        of_keys = norms.cpu().numpy()
        visible = tokens.visible
        for category, sample in enumerate(self.cells):
            of_category = visible & tokens.categories.eq(category).unsqueeze(1)
            places = of_category.cpu().numpy().nonzero()  # sentences, queries, keys

            def rows_at(numbers: np.ndarray, places=places) -> np.ndarray:
                cell, head = numbers // heads, numbers % heads
                sentence, query, key = (axis[cell] for axis in places)
                alpha = weights[sentence, head, query, key]
                return np.stack([alpha, of_keys[sentence, head, key]], axis=1)

            sample.add_some(heads * len(places[0]), rows_at)

    def _add_occurrences(self, weights: Tensor, norms: Tensor, tokens: SeenTokens) -> None:
        """Of each key, α and ‖f(x)‖, means over queries, heads and layers, (B, S).

        α comes as the mean over all queries of the sentence, and is kept as that over those that
        see the key: a decoder's earlier ones cannot.
        """
        counted = tokens.ranks.isfinite()
        seen_by = tokens.visible.sum(1).clamp(min=1)  # (B, S)
        of_visible = weights * tokens.queries.sum(1, keepdim=True) / seen_by
        columns = [tokens.ranks, tokens.categories, of_visible, norms]
        rows = [column[counted].double() for column in columns]
        self.occurrences.add(torch.stack(rows, dim=-1).cpu().numpy())


def _summed(values: Tensor) -> np.ndarray:
    """Over sentences, (B, H, K) → (H, K)."""
    return values.sum(0).cpu().numpy()
