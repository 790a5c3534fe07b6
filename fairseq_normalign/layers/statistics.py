"""Statistics of α and ‖f(x)‖ of a model over a corpus (Kobayashi et al., 2020, §4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fairseq_normalign.attention.contributions import Recorded, wide
from fairseq_normalign.attention.recorder import check_finite
from fairseq_normalign.heads.correlation import spearman
from fairseq_normalign.host.attention_modules import (
    attentions,
    head_count,
    head_numbers,
    out_bias,
    out_weight,
    value_projection,
)
from fairseq_normalign.layers.categories import Categories
from fairseq_normalign.layers.mixing import (
    BlockBatch,
    MixingResult,
    add_means,
    add_occurrences,
    divided,
    numbers,
)
from fairseq_normalign.names import KINDS, Head
from fairseq_normalign.results.blocks import (
    Block,
    Cloud,
    Clouds,
    Grid,
    Note,
    Row,
    Rows,
    Table,
    chosen_from,
)
from fairseq_normalign.results.result import Result
from fairseq_normalign.runs.joins import Draws, Gathered, arrays_of, joined_moments, moments_of


class Lengths(NamedTuple):
    """Of vectors, for each of Q heads or layers, (Q,) each."""

    mean: np.ndarray
    deviation: np.ndarray  # of the population
    variation: np.ndarray  # deviation / mean; nan where the mean is 0
    low: np.ndarray
    high: np.ndarray

    def cells(self, place: int = 0) -> list[float | None]:
        """All of them for one head or layer, as tables take them."""
        return numbers(column[place] for column in self)


def lengths_of(moments: np.ndarray) -> Lengths:
    """From count, mean, Σ (x - mean)², smallest and largest, (5, Q); see ``runs.joins``."""
    count, mean, squares, low, high = moments
    deviation = np.sqrt(squares / np.maximum(1, count))
    return Lengths(mean, deviation, deviation / np.where(mean == 0, np.nan, mean), low, high)


def pooled(moments: Iterable[np.ndarray]) -> Lengths:
    """All quantities of some moments as one."""
    columns = np.concatenate(list(moments), axis=1).T
    return lengths_of(reduce(joined_moments, columns[..., None]))


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
    transformed: Lengths  # ‖f(x)‖, of each head
    inputs: Lengths  # ‖x‖
    weights: np.ndarray  # Σ α over the keys of a category, (H, K): they add up to 1
    weighted: np.ndarray  # Σ ‖α f(x)‖ over the keys of a category, (H, K)
    by_category: np.ndarray  # mean ‖f(x)‖ of a category, (H, K); nan without tokens
    singular: list[list[float]]  # values of f as a map, of each head, falling
    rates: list[float]  # expansion of f, of each head
    rate: float  # of all heads together, with b_O


@dataclass(frozen=True)
class Statistics:
    """One kind of attention; layers without heads are absent."""

    categories: list[str]  # K
    layers: list[LayerStatistics]
    transformed: Lengths  # ‖f(x)‖ of all heads and layers together
    inputs: Lengths  # ‖x‖ of all layers
    cells: list[Relation]  # α and ‖f(x)‖ of single cells, by category
    rank_weights: Relation  # frequency rank and α
    rank_norms: Relation  # frequency rank and ‖f(x)‖
    sampled_cells: list[np.ndarray]  # α and ‖f(x)‖, (N, 2), by category: for pictures
    occurrences: np.ndarray  # rank, category, α, ‖f(x)‖, (N, 4)

    @property
    def shown(self) -> list[int]:
        """The places of the categories that have tokens."""
        return [place for place, relation in enumerate(self.cells) if relation.of]


def add_statistics(sums: Gathered, batch: BlockBatch, categories: int) -> None:
    """Adds α and ‖f(x)‖ of those blocks on a batch that have heads."""
    name, keys = f"statistics.{batch.kind}", batch.keys
    draws = Draws(batch.lines, len(KINDS) + batch.number)
    is_query, is_key = batch.queries.categories >= 0, keys.categories >= 0  # (B, T), (B, S)
    visible = is_query.unsqueeze(2) & is_key.unsqueeze(1)  # (B, T, S)
    if KINDS[batch.kind].causal:
        visible = visible.tril()
    received, transformed = [], []
    for layer, block in batch.blocks.items():
        if block.inputs is None:  # no heads are left
            continue
        weights = received_weights(block.recorded, is_query)  # (B, H, S)
        norms = block.recorded.norms.transformed  # (B, H, S)
        check_finite(norms, batch.places)
        lengths = block.inputs.to(norms.dtype).norm(dim=-1).unsqueeze(1)  # (B, 1, S)
        for what, by_key in {"inputs": lengths, "transformed": norms}.items():
            of_tokens = by_key.transpose(0, 1)[:, is_key].cpu().numpy()  # (1 or H, N)
            sums.add(f"{name}.{layer}.{what}.moments", moments_of(of_tokens))
        values = torch.stack([weights, weights * norms, norms])  # (3, B, H, S)
        by_head = values.permute(2, 0, 1, 3)
        add_means(sums, f"{name}.{layer}", by_head, keys.categories, categories)
        for category in range(categories):
            of_category = visible & keys.categories.eq(category).unsqueeze(1)
            _add_cells(sums, f"{name}.cells-{category}", block.recorded, of_category, draws)
        received.append(weights.mean(1))
        transformed.append(norms.mean(1))
    if not received:
        return
    # Of each key, α and ‖f(x)‖, means over queries, heads and layers, (B, S). α comes as the mean
    # over all queries, and is kept as that over those that see the key.
    seen_by = visible.sum(1).clamp(min=1)
    of_visible = torch.stack(received).mean(0) * is_query.sum(1, keepdim=True) / seen_by
    columns = [keys.ranks, keys.categories, of_visible, torch.stack(transformed).mean(0)]
    add_occurrences(sums, f"{name}.occurrences", columns, keys.ranks.isfinite(), draws)


def received_weights(recorded: Recorded, queries: Tensor) -> Tensor:
    """The weight that each key gets, mean over the queries of its sentence, (B, H, S).

    Args:
        queries: 1 for tokens and 0 for padding, (B, T).
    """
    weights = wide(recorded.weights)
    shares = queries.to(weights.dtype) / queries.sum(1, keepdim=True)
    return torch.einsum("bhts,bt->bhs", weights, shares)


def _add_cells(sums: Gathered, name: str, recorded: Recorded, cells: Tensor, draws: Draws) -> None:
    """Adds α and ‖f(x)‖ of some cells (B, T, S) to a sample, all heads together."""
    places = cells.cpu().numpy().nonzero()  # sentences, queries, keys
    weights = recorded.weights.float().cpu().numpy()
    norms = recorded.norms.transformed.cpu().numpy()
    heads = norms.shape[1]

    def rows_at(numbers: np.ndarray) -> np.ndarray:
        cell, head = numbers // heads, numbers % heads
        sentence, query, key = (axis[cell] for axis in places)
        alpha = weights[sentence, head, query, key]
        return np.stack([alpha, norms[sentence, head, key]], axis=1)

    of_lines = np.bincount(places[0], minlength=len(cells)) * heads
    sums.sample(name, draws(of_lines.tolist()), rows_at)


def statistics_of(
    arrays: Mapping[str, np.ndarray], kind: str, known: Mapping[str, Any], categories: Categories
) -> Statistics:
    """What was found of one kind of attention.

    Args:
        known: of each layer that has heads, what its weights show (``weight_facts``).
    """
    own = arrays_of(arrays, f"statistics.{kind}.")
    layers = []
    for number, of_weights in known.items():
        found = arrays_of(own, f"{number}.")
        *having, sentences = found["sentences.sum"]  # with tokens of each category, and of any
        weights, weighted, _ = found["micro.sum"][..., :-1].transpose(1, 0, 2) / sentences  # (H, K)
        of_layer = LayerStatistics(
            layer=int(number),
            transformed=lengths_of(found["transformed.moments"]),
            inputs=lengths_of(found["inputs.moments"]),
            weights=weights,
            weighted=weighted,
            by_category=divided(found["macro.sum"][:, 2, :-1], np.array(having)),
            **{**of_weights, "heads": [Head(kind, int(number), of) for of in of_weights["heads"]]},
        )
        layers.append(of_layer)

    def relation(name: str, first: int, second: int) -> Relation:
        columns = own[f"{name}.sample"].T[1:]  # without the numbers that rows drew
        rho = spearman(columns[first], columns[second])
        return Relation(rho, columns.shape[1], int(own[f"{name}.sum"][0]))

    of_cells = [f"cells-{category}" for category in range(len(categories.names))]
    return Statistics(
        categories=categories.names,
        layers=layers,
        transformed=pooled(own[f"{number}.transformed.moments"] for number in known),
        inputs=pooled(own[f"{number}.inputs.moments"] for number in known),
        cells=[relation(name, 0, 1) for name in of_cells],
        rank_weights=relation("occurrences", 0, 2),
        rank_norms=relation("occurrences", 0, 3),
        sampled_cells=[own[f"{name}.sample"][:, 1:] for name in of_cells],
        occurrences=own["occurrences.sample"][:, 1:],
    )


def weight_facts(model: nn.Module, kinds: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Of each kind and layer that has heads: their numbers, and f as a map, as JSON holds it."""
    known: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
    for (kind, layer), attention in attentions(model).items():
        if kind in known and head_count(attention):
            heads = list(head_numbers(attention))
            known[kind][str(layer)] = {**affine(attention), "heads": heads}
    return known


@torch.no_grad()
def affine(attention) -> dict[str, Any]:
    """Singular values and expansion rates of f, gates included: of each head, and of all."""
    values = value_projection(attention)
    weight, out = values.weight, out_weight(attention)
    bias = weight.new_zeros(len(weight)) if values.bias is None else values.bias
    width = weight.shape[1]
    by_head = (head_count(attention), -1)
    weights = weight.unflatten(0, by_head)  # (H, D, C)
    outs = out.unflatten(1, by_head).transpose(0, 1)  # (H, C, D)
    of_heads = singular_values(weights, bias.unflatten(0, by_head), outs)
    of_all = singular_values(weight, bias, out, out_bias(attention))
    return {
        "singular": of_heads.tolist(),
        "rates": expansion_rate(of_heads, width).tolist(),
        "rate": float(expansion_rate(of_all, width)),
    }


def singular_values(
    value_weight: Tensor,
    value_bias: Tensor | None,
    out_weight: Tensor,
    out_bias: Tensor | None = None,
) -> Tensor:
    """Singular values of f as a linear map of (x, 1) to (f(x), 1), in falling order, (…, D+1).

    With its biases, f(x) = W_O (W_V x + b_V) + b_O is affine; on vectors with a 1 behind them it is
    linear:

        [W_O  b_O]   [W_V  b_V]
        [ 0    1 ] · [ 0    1 ]

    Only D+1 of the singular values are not 0, and they are those of the product of the triangular
    factors of both matrices, which is small.

    Args:
        value_weight: W_V, (…, D, C): of one head or of several, or (H·D, C) of all as one.
        value_bias: b_V, (…, D).
        out_weight: W_O of the same, (…, C, D).
        out_bias: b_O, (C,), where it belongs to f.
    """
    to_values = _affine(value_weight, value_bias)  # (…, D+1, C+1)
    to_output = _affine(out_weight, out_bias)  # (…, C+1, D+1)
    left = torch.linalg.qr(to_output).R
    right = torch.linalg.qr(to_values.mT).R
    return torch.linalg.svdvals(left @ right.mT)


def _affine(weight: Tensor, bias: Tensor | None) -> Tensor:
    """[[W, b], [0, 1]]."""
    matrix = functional.pad(wide(weight), (0, 1, 0, 1))
    if bias is not None:
        matrix[..., :-1, -1] = bias
    matrix[..., -1, -1] = 1
    return matrix


def expansion_rate(singular: Tensor, width: int) -> Tensor:
    """√(Σ σ² / (C+1)): how much longer f makes a vector (x, 1) of any direction, on average.

    Args:
        singular: see :func:`singular_values`, (…, D+1).
        width: of x, C.
    """
    return (singular.double().square().sum(-1) / (width + 1)).sqrt()


POINTS = 400  # of a cloud
SMALLEST = 1e-4  # weight that a cloud shows
BY_CATEGORY = {  # (H, K) of a layer
    "Σ α over the keys of a category": attrgetter("weights"),
    "Σ ‖αf(x)‖ over the keys of a category": attrgetter("weighted"),
    "‖f(x)‖, mean over the keys of a category": attrgetter("by_category"),
}
BY_HEAD = {  # (H,) of a layer
    "mean ‖f(x)‖": attrgetter("transformed.mean"),
    "coefficient of variation of ‖f(x)‖": attrgetter("transformed.variation"),
    "expansion rate": attrgetter("rates"),
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
    layers = [str(layer.layer + 1) for layer in measured.layers]
    shown = [measured.categories[place] for place in measured.shown]
    by_category = []  # means over heads
    for title, value in BY_CATEGORY.items():
        values = [numbers(value(layer).mean(0)[measured.shown]) for layer in measured.layers]
        by_category.append(Grid(title, "layer", "category", layers, shown, values))
    heads = range(1 + max(layer.heads[-1].head for layer in measured.layers))
    by_head = []
    for title, value in BY_HEAD.items():
        values = []
        for layer in measured.layers:
            known = dict(zip(layer.heads, numbers(value(layer)), strict=True))
            values.append([known.get(Head(kind, layer.layer, head)) for head in heads])
        names = [str(head + 1) for head in heads]
        by_head.append(
            Grid(
                f"{title} by layer and head",
                "layer",
                "head",
                layers,
                names,
                values,
                absent="removed",
                name=title,
            )
        )
    return [
        Row(by_category),
        Row(by_head),
        *_tables(kind, measured),
        Row(_clouds(measured)),
    ]


def _tables(kind: str, measured: Statistics) -> list[Block]:
    """Norms, rank correlations, what heads give to categories, and singular values."""
    norms: Rows = []  # of x for each layer, of f(x) for each head, and of both for all
    by_category: Rows = []
    singular: Rows = []
    for layer in measured.layers:
        norms.append([f"‖x‖, layer {layer.layer + 1}", *layer.inputs.cells(), layer.rate])
        values = np.stack([value(layer) for value in BY_CATEGORY.values()], axis=-1)  # (H, K, 3)
        for place, head in enumerate(layer.heads):
            norms.append([f"‖f(x)‖, {head}", *layer.transformed.cells(place), layer.rates[place]])
            for category, cells in zip(measured.categories, values[place], strict=True):
                by_category.append([str(head), category, *numbers(cells)])
            singular += [[str(head), *value] for value in enumerate(layer.singular[place], 1)]
    norms.append(["‖x‖, all", *measured.inputs.cells(), None])
    norms.append(["‖f(x)‖, all", *measured.transformed.cells(), None])
    relations: Rows = []
    for place in measured.shown:
        relations.append([f"α, ‖f(x)‖: {measured.categories[place]}", *measured.cells[place]])
    relations.append(["frequency rank, α", *measured.rank_weights])
    relations.append(["frequency rank, ‖f(x)‖", *measured.rank_norms])
    of_norms = ["norm", "mean", "deviation", "CV", "min", "max", "expansion rate"]
    of_relations = ["", "ρ", "points", "of"]
    of_heads = ["head", "category", *BY_CATEGORY]
    of_values = ["head", "number", "singular value"]
    title, name = "Singular values of f", f"{kind}.singular-values"
    return [
        Table(of_norms, norms, "Norms of vectors", name=f"{kind}.norms"),
        Table(of_relations, relations, "Rank correlations (Spearman)", name=f"{kind}.correlations"),
        Table(of_heads, by_category, "Heads by category", name=f"{kind}.heads", hidden=True),
        Table(of_values, singular, title, name=name, hidden=True),
    ]


def _clouds(measured: Statistics) -> list[Block]:
    """α and ‖f(x)‖ of single cells, and of occurrences of tokens over their frequency rank."""
    cells, weights, norms = [], [], []
    for place in measured.shown:
        name = measured.categories[place]
        points = measured.sampled_cells[place]
        cells.append(Cloud(name, _some(points[points[:, 0] >= SMALLEST])))
        of_category = measured.occurrences[measured.occurrences[:, 1] == place]
        if len(of_category):
            weights.append(Cloud(name, _some(of_category[:, [0, 2]])))
            norms.append(Cloud(name, _some(of_category[:, [0, 3]])))
    rank = "frequency rank"
    return [
        Clouds("α and ‖f(x)‖ of single cells", "α", "‖f(x)‖", cells, log_x=True),
        Clouds("Frequency rank and α", rank, "mean α", weights, log_x=True),
        Clouds("Frequency rank and ‖f(x)‖", rank, "mean ‖f(x)‖", norms, log_x=True),
    ]


def _some(points: np.ndarray) -> list[tuple[float, float]]:
    """As many points as a picture can show, evenly from all."""
    step = max(1, len(points) // POINTS)
    return [(x, y) for x, y in points[::step][:POINTS].tolist()]
