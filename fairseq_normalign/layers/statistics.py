"""Statistics of α and ‖f(x)‖ of a model over a corpus (Kobayashi et al., 2020, §4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from fairseq_normalign.layers.block_pass import BlockBatch
from fairseq_normalign.layers.categories import Categories
from fairseq_normalign.layers.mixing import MixingResult
from fairseq_normalign.layers.moments import Moments, pooled
from fairseq_normalign.layers.statistics_tally import LayerTally, SeenTokens, StatisticsTally
from fairseq_normalign.layers.weight_and_norm import expansion_rate, singular_values
from fairseq_normalign.names import KINDS, Head
from fairseq_normalign.results.blocks import (
    Block,
    Cell,
    Cloud,
    Clouds,
    Grid,
    Note,
    Row,
    Table,
    chosen_from,
)
from fairseq_normalign.results.result import Result


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


LENGTHS = ("mean", "deviation", "CV", "min", "max")
POINTS = 400  # of a cloud
SMALLEST = 1e-4  # weight that a cloud shows
BY_CATEGORY: dict[str, Callable[[LayerStatistics], np.ndarray]] = {
    "Σ α over the keys of a category": lambda layer: layer.weights,
    "Σ ‖αf(x)‖ over the keys of a category": lambda layer: layer.weighted,
    "‖f(x)‖, mean over the keys of a category": lambda layer: layer.by_category,
}
BY_HEAD: dict[str, Callable[[LayerStatistics], Sequence[float]]] = {
    "mean ‖f(x)‖": lambda layer: layer.transformed.mean.tolist(),
    "coefficient of variation of ‖f(x)‖": lambda layer: layer.transformed.variation.tolist(),
    "expansion rate": lambda layer: layer.affine.rates,
}


@dataclass(frozen=True)
class StatisticsResult(Result):
    """Statistics of a model by kind of attention, and perhaps its mixing ratios."""

    by_kind: Mapping[str, Statistics]
    signature: Mapping[str, object]
    mixing: MixingResult | None = None

    kind = "statistics"
    title = "Attention weights and norms"
    about = (
        "α is an attention weight, x the vector that is attended to, f(x) what the head makes of "
        "it, and ‖αf(x)‖ the norm of what it adds."
    )

    def blocks(self) -> list[Block]:
        note = Note(
            "Maps of categories show means over queries, sentences and heads. The expansion rate "
            "is how much longer f(x) is than x, for vectors of any direction."
        )
        groups = {}
        for kind, measured in self.by_kind.items():
            groups[KINDS[kind].title] = _blocks_of_kind(kind, measured)
        mixing = [] if self.mixing is None else self.mixing.blocks()
        return [note, *chosen_from("attention", groups), *mixing]


def _blocks_of_kind(kind: str, measured: Statistics) -> list[Block]:
    categories = [_category_map(name, measured, value) for name, value in BY_CATEGORY.items()]
    heads = [_head_map(name, measured, value) for name, value in BY_HEAD.items()]
    return [
        Row(categories),
        Row(heads),
        _lengths_table(kind, measured),
        _relations_table(kind, measured),
        _heads_table(kind, measured),
        _singular_values(kind, measured),
        Row(_clouds(measured)),
    ]


def _shown_categories(measured: Statistics) -> list[int]:
    """The places of the categories that have tokens."""
    return [place for place, relation in enumerate(measured.cells) if relation.of]


def _category_map(
    title: str, measured: Statistics, value: Callable[[LayerStatistics], np.ndarray]
) -> Grid:
    """A row for each layer, a column for each category; means over heads."""
    kept = _shown_categories(measured)
    values = [_numbers(value(layer).mean(0)[kept]) for layer in measured.layers]
    rows = [str(layer.layer + 1) for layer in measured.layers]
    columns = [measured.categories[place] for place in kept]
    return Grid(title, "layer", "category", rows, columns, values, numbers=True)


def _head_map(
    title: str, measured: Statistics, value: Callable[[LayerStatistics], Sequence[float]]
) -> Grid:
    count = 1 + max(head.head for layer in measured.layers for head in layer.heads)
    values = []
    for layer in measured.layers:
        row: list[float | None] = [None] * count
        for head, number in zip(layer.heads, _numbers(value(layer)), strict=True):
            row[head.head] = number
        values.append(row)
    rows = [str(layer.layer + 1) for layer in measured.layers]
    columns = [str(head + 1) for head in range(count)]
    return Grid(title, "layer", "head", rows, columns, values, absent="removed")


def _numbers(values: Iterable[float]) -> list[float | None]:
    return [None if math.isnan(value) else float(value) for value in values]


def _lengths_of(moments: Moments, place: int = 0) -> list[float | None]:
    """Mean, deviation, CV, min and max of one quantity."""
    columns = (moments.mean, moments.deviation, moments.variation, moments.low, moments.high)
    return _numbers(column[place] for column in columns)


def _lengths_table(kind: str, measured: Statistics) -> Table:
    """Norms of x for each layer, of f(x) for each head, and of both for all; expansion rates."""
    rows: list[list[Cell]] = []
    for layer in measured.layers:
        inputs = _lengths_of(layer.inputs)
        rows.append([f"‖x‖, layer {layer.layer + 1}", *inputs, layer.affine.rate])
        for place, head in enumerate(layer.heads):
            transformed = _lengths_of(layer.transformed, place)
            rows.append([f"‖f(x)‖, {head}", *transformed, layer.affine.rates[place]])
    rows.append(["‖x‖, all", *_lengths_of(measured.inputs), None])
    rows.append(["‖f(x)‖, all", *_lengths_of(measured.transformed), None])
    columns = ["norm", *LENGTHS, "expansion rate"]
    return Table(columns, rows, "Norms of vectors", name=f"{kind}.norms")


def _relations_table(kind: str, measured: Statistics) -> Table:
    """α with ‖f(x)‖ by category, and frequency rank with both."""
    relations = {}
    for place in _shown_categories(measured):
        relations[f"α, ‖f(x)‖: {measured.categories[place]}"] = measured.cells[place]
    relations["frequency rank, α"] = measured.rank_weights
    relations["frequency rank, ‖f(x)‖"] = measured.rank_norms
    rows: list[list[Cell]] = [[name, *relation] for name, relation in relations.items()]
    columns = ["", "ρ", "points", "of"]
    return Table(columns, rows, "Rank correlations (Spearman)", name=f"{kind}.correlations")


def _heads_table(kind: str, measured: Statistics) -> Table:
    """What each head gives to each category."""
    rows: list[list[Cell]] = []
    for layer in measured.layers:
        for number, head in enumerate(layer.heads):
            for place, category in enumerate(measured.categories):
                of_cell = [value(layer)[number, place] for value in BY_CATEGORY.values()]
                rows.append([str(head), category, *_numbers(of_cell)])
    columns = ["head", "category", *BY_CATEGORY]
    return Table(columns, rows, "Heads by category", name=f"{kind}.heads", hidden=True)


def _singular_values(kind: str, measured: Statistics) -> Table:
    rows: list[list[Cell]] = []
    for layer in measured.layers:
        for head, values in zip(layer.heads, layer.affine.singular, strict=True):
            rows += [[str(head), number, value] for number, value in enumerate(values.tolist(), 1)]
    columns = ["head", "number", "singular value"]
    name = f"{kind}.singular-values"
    return Table(columns, rows, "Singular values of f", name=name, hidden=True)


def _clouds(measured: Statistics) -> list[Block]:
    """α and ‖f(x)‖ of single cells, and of occurrences of tokens over their frequency rank."""
    cells, by_rank = [], {2: [], 3: []}  # type: tuple[list[Cloud], dict[int, list[Cloud]]]
    for place in _shown_categories(measured):
        name = measured.categories[place]
        points = measured.sampled_cells[place]
        cells.append(Cloud(name, _some(points[points[:, 0] >= SMALLEST])))
        of_category = measured.occurrences[measured.occurrences[:, 1] == place]
        for column, clouds in by_rank.items():
            if len(of_category):
                clouds.append(Cloud(name, _some(of_category[:, [0, column]])))
    rank = "frequency rank"
    return [
        Clouds("α and ‖f(x)‖ of single cells", "α", "‖f(x)‖", cells, log_x=True),
        Clouds("Frequency rank and α", rank, "mean α", by_rank[2], log_x=True),
        Clouds("Frequency rank and ‖f(x)‖", rank, "mean ‖f(x)‖", by_rank[3], log_x=True),
    ]


def _some(points: np.ndarray) -> list[tuple[float, float]]:
    """As many points as a picture can show, evenly from all."""
    step = max(1, len(points) // POINTS)
    return [(float(x), float(y)) for x, y in points[::step][:POINTS]]
