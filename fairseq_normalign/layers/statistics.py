"""Statistics of α and ‖f(x)‖ of a model over a corpus (Kobayashi et al., 2020, §4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from fairseq_normalign.attention.block import Block as AttentionBlock
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
from fairseq_normalign.layers.block_pass import (
    BlockBatch,
    add_occurrences,
    divided,
    memberships,
    numbers,
)
from fairseq_normalign.layers.categories import Categories
from fairseq_normalign.layers.mixing import MixingResult
from fairseq_normalign.layers.weight_and_norm import (
    expansion_rate,
    received_weights,
    singular_values,
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


def lengths_of(moments: np.ndarray) -> Lengths:
    """From count, mean, Σ (x - mean)², smallest and largest, (5, Q); see ``runs.joins``."""
    count, mean, squares, low, high = moments
    deviation = np.sqrt(squares / np.maximum(1, count))
    return Lengths(mean, deviation, deviation / np.where(mean == 0, np.nan, mean), low, high)


def pooled(moments: Iterable[np.ndarray]) -> Lengths:
    """All quantities of some moments as one."""
    columns = np.concatenate(list(moments), axis=1)
    single = [columns[:, [place]] for place in range(columns.shape[1])]
    return lengths_of(reduce(joined_moments, single))


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


def add_statistics(sums: Gathered, batch: BlockBatch, categories: Categories) -> None:
    """Adds α and ‖f(x)‖ of all attentions that have heads, on a batch."""
    for number, (kind, of_kind) in enumerate(batch.by_kind().items()):
        blocks = {}
        for layer, block in of_kind.items():
            if block.recorded.weights.shape[1]:
                blocks[layer] = block
                check_finite(block.recorded.norms.transformed, batch.places)
        keys = batch.keys(kind)
        queries = batch.queries(kind).categories >= 0
        tokens = SeenTokens(queries, keys.categories, keys.ranks, KINDS[kind].causal)
        draws = Draws(batch.lines, len(KINDS) + number)
        add_attentions(sums, f"statistics.{kind}", blocks, tokens, len(categories.names), draws)


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


def add_attentions(
    sums: Gathered,
    name: str,
    blocks: Mapping[int, AttentionBlock],
    tokens: SeenTokens,
    categories: int,
    draws: Draws,
) -> None:
    """Adds the blocks of one kind that have heads, by layer, and the tokens that they see."""
    received, transformed = [], []
    for layer, block in blocks.items():
        norms = block.recorded.norms.transformed  # (B, H, S)
        weights = received_weights(block.recorded, tokens.queries)
        _add_layer(sums, f"{name}.{layer}", block, weights, tokens.categories, categories)
        for category in range(categories):
            _add_cells(sums, f"{name}.cells-{category}", block, tokens, category, draws)
        received.append(weights.mean(1))
        transformed.append(norms.mean(1))
    if blocks:
        # Of each key, α and ‖f(x)‖, means over queries, heads and layers, (B, S). α comes as the
        # mean over all queries, and is kept as that over those that see the key.
        seen_by = tokens.visible.sum(1).clamp(min=1)  # (B, S)
        of_visible = torch.stack(received).mean(0) * tokens.queries.sum(1, keepdim=True) / seen_by
        means = [of_visible, torch.stack(transformed).mean(0)]
        columns = [tokens.ranks, tokens.categories, *means]
        add_occurrences(sums, f"{name}.occurrences", columns, tokens.ranks.isfinite(), draws)


def _add_layer(
    sums: Gathered,
    name: str,
    block: AttentionBlock,
    weights: Tensor,
    categories: Tensor,
    number: int,
) -> None:
    """Adds one attention: lengths, and sums over sentences by category, (H, K)."""
    norms = block.recorded.norms.transformed  # (B, H, S)
    is_token = categories >= 0  # (B, S)
    assert block.inputs is not None
    lengths = block.inputs.to(norms.dtype).norm(dim=-1)[is_token]
    if len(lengths):
        of_heads = norms.transpose(0, 1)[:, is_token].cpu().numpy()
        sums.add(f"{name}.transformed.moments", moments_of(of_heads))
        sums.add(f"{name}.inputs.moments", moments_of(lengths.unsqueeze(0).cpu().numpy()))
    members = memberships(categories, number)[..., :-1]  # (B, S, K)
    counts = members.sum(1)  # (B, K)
    means = members / counts.clamp(min=1).unsqueeze(1)
    for quantity, values, shares in (
        ("weights", weights, members),  # Σ α over the keys, mean over queries
        ("weighted", weights * norms, members),  # the same of ‖α f(x)‖
        ("by_category", norms, means),  # mean ‖f(x)‖ over the keys
    ):
        of_category = torch.einsum("bhs,bsk->hk", values.double(), shares)
        sums.add(f"{name}.{quantity}.sum", of_category.cpu().numpy())
    sums.add(f"{name}.sentences.sum", np.array([len(categories)]))
    sums.add(f"{name}.having.sum", counts.gt(0).sum(0).cpu().numpy())


def _add_cells(
    sums: Gathered,
    name: str,
    block: AttentionBlock,
    tokens: SeenTokens,
    category: int,
    draws: Draws,
) -> None:
    """Cells that a query sees, of one category of their keys, all heads together."""
    visible = tokens.visible & tokens.categories.eq(category).unsqueeze(1)  # (B, T, S)
    places = visible.cpu().numpy().nonzero()  # sentences, queries, keys
    weights = block.recorded.weights.float().cpu().numpy()
    norms = block.recorded.norms.transformed.cpu().numpy()
    heads = norms.shape[1]

    def rows_at(numbers: np.ndarray) -> np.ndarray:
        cell, head = numbers // heads, numbers % heads
        sentence, query, key = (axis[cell] for axis in places)
        alpha = weights[sentence, head, query, key]
        return np.stack([alpha, norms[sentence, head, key]], axis=1)

    of_lines = np.bincount(places[0], minlength=len(visible)) * heads
    sums.sample(name, draws(of_lines.tolist()), rows_at)


def statistics_of(
    arrays: Mapping[str, np.ndarray], kind: str, known: Mapping[str, Any], categories: Categories
) -> Statistics:
    """What was found of one kind of attention.

    Args:
        known: of each layer that has heads, what its weights say (``weights_say``).
    """
    own = arrays_of(arrays, f"statistics.{kind}.")
    layers = [_layer_statistics(own, kind, number, known[number]) for number in known]
    of_cells = [f"cells-{category}" for category in range(len(categories.names))]
    return Statistics(
        categories=categories.names,
        layers=layers,
        transformed=pooled(own[f"{number}.transformed.moments"] for number in known),
        inputs=pooled(own[f"{number}.inputs.moments"] for number in known),
        cells=[_relation(own, name, 0, 1) for name in of_cells],
        rank_weights=_relation(own, "occurrences", 0, 2),
        rank_norms=_relation(own, "occurrences", 0, 3),
        sampled_cells=[_rows(own, name) for name in of_cells],
        occurrences=_rows(own, "occurrences"),
    )


def _rows(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """Those of a sample, without the numbers that they drew."""
    return arrays[f"{name}.sample"][:, 1:]


def _relation(arrays: Mapping[str, np.ndarray], name: str, first: int, second: int) -> Relation:
    """Of two columns of a sample."""
    columns = _rows(arrays, name).T
    seen = int(arrays[f"{name}.sum"][0])
    return Relation(spearman(columns[first], columns[second]), columns.shape[1], seen)


def _layer_statistics(
    arrays: Mapping[str, np.ndarray], kind: str, number: str, known: Mapping[str, Any]
) -> LayerStatistics:
    """What was gathered of one attention, and what its parameters tell."""
    own, layer = arrays_of(arrays, f"{number}."), int(number)
    heads = [Head(kind, layer, head) for head in known["heads"]]
    return LayerStatistics(
        layer=layer,
        transformed=lengths_of(own["transformed.moments"]),
        inputs=lengths_of(own["inputs.moments"]),
        weights=own["weights.sum"] / own["sentences.sum"],
        weighted=own["weighted.sum"] / own["sentences.sum"],
        by_category=divided(own["by_category.sum"], own["having.sum"]),
        **{**known, "heads": heads},
    )


def weights_say(model: nn.Module, kinds: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Of each kind and layer that has heads: their numbers, and f as a map, as JSON holds it."""
    known: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
    for (kind, layer), attention in attentions(model).items():
        if kind in known and head_count(attention):
            heads = list(head_numbers(attention))
            known[kind][str(layer)] = {**affine(attention), "heads": heads}
    return known


def affine(attention) -> dict[str, Any]:
    """Singular values and expansion rates of f, gates included: of each head, and of all."""
    values = value_projection(attention)
    by_head = (head_count(attention), -1)
    weight = values.weight.detach()
    bias = weight.new_zeros(len(weight)) if values.bias is None else values.bias.detach()
    out = out_weight(attention).detach()
    singular, rates = [], []
    of_heads = zip(
        weight.unflatten(0, by_head),
        bias.unflatten(0, by_head),
        out.unflatten(1, by_head).unbind(1),
        strict=True,
    )
    for parts in of_heads:
        of_head = singular_values(*parts)
        singular.append(of_head.tolist())
        rates.append(expansion_rate(of_head, weight.shape[1]))
    added = out_bias(attention)
    together = singular_values(weight, bias, out, None if added is None else added.detach())
    return {
        "singular": singular,
        "rates": rates,
        "rate": expansion_rate(together, weight.shape[1]),
    }


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
    categories = [_category_map(name, measured, value) for name, value in BY_CATEGORY.items()]
    heads = [_head_map(name, measured, value) for name, value in BY_HEAD.items()]
    return [
        Row(categories),
        Row(heads),
        _norms_table(kind, measured),
        _relations_table(kind, measured),
        _heads_table(kind, measured),
        _singular_values(kind, measured),
        Row(_clouds(measured)),
    ]


def _category_map(title: str, measured: Statistics, value: Callable) -> Grid:
    """A row for each layer, a column for each category; means over heads."""
    values = [numbers(value(layer).mean(0)[measured.shown]) for layer in measured.layers]
    rows = [str(layer.layer + 1) for layer in measured.layers]
    columns = [measured.categories[place] for place in measured.shown]
    return Grid(title, "layer", "category", rows, columns, values, numbers=True)


def _head_map(title: str, measured: Statistics, value: Callable) -> Grid:
    count = 1 + max(layer.heads[-1].head for layer in measured.layers)
    values = []
    for layer in measured.layers:
        row: list[float | None] = [None] * count
        for head, number in zip(layer.heads, numbers(value(layer)), strict=True):
            row[head.head] = number
        values.append(row)
    rows = [str(layer.layer + 1) for layer in measured.layers]
    columns = [str(head + 1) for head in range(count)]
    return Grid(title, "layer", "head", rows, columns, values, absent="removed")


def _norms_table(kind: str, measured: Statistics) -> Table:
    """Norms of x for each layer, of f(x) for each head, and of both for all; expansion rates."""
    rows: Rows = []

    def add(name: str, lengths: Lengths, place: int, rate: float | None) -> None:
        rows.append([name, *numbers(column[place] for column in lengths), rate])

    for layer in measured.layers:
        add(f"‖x‖, layer {layer.layer + 1}", layer.inputs, 0, layer.rate)
        for place, head in enumerate(layer.heads):
            add(f"‖f(x)‖, {head}", layer.transformed, place, layer.rates[place])
    add("‖x‖, all", measured.inputs, 0, None)
    add("‖f(x)‖, all", measured.transformed, 0, None)
    columns = ["norm", "mean", "deviation", "CV", "min", "max", "expansion rate"]
    return Table(columns, rows, "Norms of vectors", name=f"{kind}.norms")


def _relations_table(kind: str, measured: Statistics) -> Table:
    """α with ‖f(x)‖ by category, and frequency rank with both."""
    relations = {}
    for place in measured.shown:
        relations[f"α, ‖f(x)‖: {measured.categories[place]}"] = measured.cells[place]
    relations["frequency rank, α"] = measured.rank_weights
    relations["frequency rank, ‖f(x)‖"] = measured.rank_norms
    rows: Rows = [[name, *relation] for name, relation in relations.items()]
    columns = ["", "ρ", "points", "of"]
    return Table(columns, rows, "Rank correlations (Spearman)", name=f"{kind}.correlations")


def _heads_table(kind: str, measured: Statistics) -> Table:
    """What each head gives to each category."""
    rows: Rows = []
    for layer in measured.layers:
        for number, head in enumerate(layer.heads):
            for place, category in enumerate(measured.categories):
                of_cell = [value(layer)[number, place] for value in BY_CATEGORY.values()]
                rows.append([str(head), category, *numbers(of_cell)])
    columns = ["head", "category", *BY_CATEGORY]
    return Table(columns, rows, "Heads by category", name=f"{kind}.heads", hidden=True)


def _singular_values(kind: str, measured: Statistics) -> Table:
    rows: Rows = []
    for layer in measured.layers:
        for head, values in zip(layer.heads, layer.singular, strict=True):
            rows += [[str(head), number, value] for number, value in enumerate(values, 1)]
    columns = ["head", "number", "singular value"]
    name = f"{kind}.singular-values"
    return Table(columns, rows, "Singular values of f", name=name, hidden=True)


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
    return [(float(x), float(y)) for x, y in points[::step][:POINTS]]
