"""Statistics of α and ‖f(x)‖ of a model over a corpus (Kobayashi et al., 2020, §4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from torch import nn

from fairseq_normalign.attention.finite import check_finite
from fairseq_normalign.heads.correlation import spearman
from fairseq_normalign.host.attention_modules import (
    Name,
    attentions,
    head_count,
    head_numbers,
    head_width,
    out_bias,
    out_weight,
    value_projection,
)
from fairseq_normalign.html_table import Cell, html_table, percent_text
from fairseq_normalign.layers.block_pass import BlockBatch
from fairseq_normalign.layers.categories import Categories
from fairseq_normalign.layers.moments import Moments, pooled
from fairseq_normalign.layers.statistics_tally import LayerTally, SeenTokens, StatisticsTally
from fairseq_normalign.layers.weight_and_norm import expansion_rate, singular_values
from fairseq_normalign.names import KINDS, Head


class Affine(NamedTuple):
    """What f is as a map, of each head and of all heads with b_O."""

    singular: list[np.ndarray]  # of each head, falling
    rates: list[float]  # of each head
    rate: float  # of the attention


class Relation(NamedTuple):
    """A rank correlation, Spearman's ρ."""

    rho: float | None  # None: too few, or all alike
    points: int
    of: int  # if these are more than the points, the points are a random sample of them


@dataclass(frozen=True)
class LayerStatistics:
    """One attention with H heads; K categories of tokens."""

    layer: int  # from 0
    heads: list[Head]
    transformed: Moments  # ‖f(x)‖, of each head
    inputs: Moments  # ‖x‖
    weights: np.ndarray  # Σ α over the keys of a category, (H, K): they add up to 1
    weighted: np.ndarray  # Σ ‖α f(x)‖ over the keys of a category, (H, K)
    by_category: np.ndarray  # mean ‖f(x)‖ of a category, (H, K); nan without tokens
    affine: Affine


@dataclass(frozen=True)
class Statistics:
    """One kind of attention; layers without heads are absent."""

    categories: list[str]  # K
    layers: list[LayerStatistics]
    transformed: Moments  # ‖f(x)‖ of all heads and layers together
    inputs: Moments  # ‖x‖ of all layers
    cells: list[Relation]  # α and ‖f(x)‖ of single cells, by category
    rank_weights: Relation  # frequency rank and α
    rank_norms: Relation  # frequency rank and ‖f(x)‖
    sampled_cells: list[np.ndarray]  # α and ‖f(x)‖, (N, 2), by category: for pictures
    occurrences: np.ndarray  # rank, category, α, ‖f(x)‖, (N, 4)

    def _repr_html_(self) -> str:
        """What a notebook shows: of each layer the shares of α and of ‖αf(x)‖, by category."""
        header = ["layer"]
        for name in self.categories:
            header += [f"α, {name}", f"‖αf(x)‖, {name}"]
        rows = []
        for layer in self.layers:
            weights = layer.weights.mean(0)  # (K,)
            norms = (layer.weighted / layer.weighted.sum(1, keepdims=True)).mean(0)
            cells: list[str | Cell] = [str(layer.layer + 1)]
            for share in np.column_stack([weights, norms]).ravel().tolist():
                cells.append(Cell(percent_text(share), share))
            rows.append(cells)
        return html_table(header, rows, caption="shares in %, mean of the heads of a layer")


class StatisticsWatcher:
    """Gathers α and ‖f(x)‖ of all attentions that have heads."""

    KEPT = ("tallies",)

    def __init__(self, categories: Categories):
        self.categories = categories
        self.tallies: dict[str, StatisticsTally] = {}

    def __call__(self, batch: BlockBatch) -> None:
        for kind in dict.fromkeys(kind for kind, _ in batch.blocks):
            blocks = {}
            for layer, block in batch.layers(kind).items():
                if block.recorded.weights.shape[1]:
                    blocks[layer] = block
                    check_finite(block.recorded.norms.transformed, batch.places)
            keys = batch.keys(kind)
            tokens = SeenTokens(
                batch.queries(kind).categories >= 0,
                keys.categories,
                keys.ranks,
                KINDS[kind].causal,
            )
            tally = self.tallies.setdefault(kind, StatisticsTally(len(self.categories.names)))
            tally.add(blocks, tokens)

    def result(self, model: nn.Module) -> dict[str, Statistics]:
        """What was found, by kind of attention; those without any head are absent."""
        by_kind = {}
        for kind, tally in self.tallies.items():
            if tally.layers:
                by_kind[kind] = self._result(kind, tally, model)
        return by_kind

    def _result(self, kind: str, tally: StatisticsTally, model: nn.Module) -> Statistics:
        layers = [
            layer_statistics((kind, layer), of_layer, model)
            for layer, of_layer in sorted(tally.layers.items())
        ]
        rows = tally.occurrences.rows()
        seen = tally.occurrences.seen
        cells = [sample.rows() for sample in tally.cells]
        return Statistics(
            categories=self.categories.names,
            layers=layers,
            transformed=pooled(layer.transformed for layer in layers),
            inputs=pooled(layer.inputs for layer in layers),
            cells=[
                _relation(points[:, 0], points[:, 1], sample.seen)
                for points, sample in zip(cells, tally.cells, strict=True)
            ],
            rank_weights=_relation(rows[:, 0], rows[:, 2], seen),
            rank_norms=_relation(rows[:, 0], rows[:, 3], seen),
            sampled_cells=cells,
            occurrences=rows,
        )


def _relation(first: np.ndarray, second: np.ndarray, seen: int) -> Relation:
    return Relation(spearman(first, second), len(first), seen)


def layer_statistics(name: Name, tally: LayerTally, model: nn.Module) -> LayerStatistics:
    """What was gathered of one attention, and what its parameters tell."""
    kind, layer = name
    attention = attentions(model)[name]
    having = tally.having
    by_category = np.where(having > 0, tally.by_category / np.maximum(having, 1), np.nan)
    return LayerStatistics(
        layer,
        [Head(kind, layer, number) for number in head_numbers(attention)],
        tally.transformed,
        tally.inputs,
        tally.weights / tally.sentences,
        tally.weighted / tally.sentences,
        by_category,
        affine(attention),
    )


def affine(attention) -> Affine:
    """Singular values and expansion rates of f, gates included."""
    values = value_projection(attention)
    width = head_width(attention)
    weight, bias = values.weight.detach(), values.bias
    if bias is not None:
        bias = bias.detach()
    out = out_weight(attention).detach()
    model_width = weight.shape[1]
    singular, rates = [], []
    for head in range(head_count(attention)):
        part = slice(head * width, (head + 1) * width)
        of_head = singular_values(weight[part], None if bias is None else bias[part], out[:, part])
        singular.append(of_head.cpu().numpy())
        rates.append(expansion_rate(of_head, model_width))
    shift = out_bias(attention)
    together = singular_values(weight, bias, out, None if shift is None else shift.detach())
    return Affine(singular, rates, expansion_rate(together, model_width))
