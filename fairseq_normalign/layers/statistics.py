"""Statistics of α and ‖f(x)‖ of a model over a corpus (Kobayashi et al., 2020, §4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from fairseq_normalign.attention.block import Block
from fairseq_normalign.attention.finite import check_finite
from fairseq_normalign.heads.correlation import spearman
from fairseq_normalign.host.attention_modules import (
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
from fairseq_normalign.layers.means import divided, memberships
from fairseq_normalign.layers.moments import Moments, pooled
from fairseq_normalign.layers.weight_and_norm import (
    by_category,
    expansion_rate,
    received_weights,
    singular_values,
)
from fairseq_normalign.names import KINDS, Head
from fairseq_normalign.runs.joins import Draws, Gathered, moments_of


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


def add_statistics(sums: Gathered, batch: BlockBatch, categories: Categories) -> None:
    """Adds α and ‖f(x)‖ of all attentions that have heads, on a batch."""
    for number, kind in enumerate(batch.kinds):
        blocks = {}
        for layer, block in sorted(batch.layers(kind).items()):
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
        draws = Draws(batch.lines, len(KINDS) + number)
        add_attentions(sums, f"statistics.{kind}", blocks, tokens, len(categories.names), draws)


class SeenTokens(NamedTuple):
    """The tokens of a batch, as queries and as keys."""

    queries: Tensor  # whether there is a token, (B, T)
    categories: Tensor  # of the keys, -1 for padding, (B, S)
    ranks: Tensor  # of the keys, nan for what is left out, (B, S)
    causal: bool  # whether a query sees only what is not behind it


def add_attentions(
    sums: Gathered,
    name: str,
    blocks: Mapping[int, Block],
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
        # Of each key, α and ‖f(x)‖, means over queries, heads and layers, (B, S).
        means = [torch.stack(received).mean(0), torch.stack(transformed).mean(0)]
        counted = tokens.ranks.isfinite()
        columns = [tokens.ranks, tokens.categories, *means]
        rows = torch.stack([column[counted].float() for column in columns], dim=-1)
        of_lines = draws(counted.sum(1).tolist())
        sums.sample(f"{name}.occurrences", of_lines, rows.cpu().numpy().__getitem__)


def _add_layer(
    sums: Gathered, name: str, block: Block, weights: Tensor, categories: Tensor, number: int
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
    means = by_category(norms, members) / counts.clamp(min=1).unsqueeze(1)
    for quantity, values in {
        "weights": by_category(weights, members),  # Σ α over the keys, mean over queries
        "weighted": by_category(weights * norms, members),  # the same of ‖α f(x)‖
        "by_category": means,  # mean ‖f(x)‖ over the keys
    }.items():
        sums.add(f"{name}.{quantity}.sum", values.sum(0).cpu().numpy())
    sums.add(f"{name}.sentences.sum", np.array([len(categories)]))
    sums.add(f"{name}.having.sum", counts.gt(0).sum(0).cpu().numpy())


def _add_cells(
    sums: Gathered, name: str, block: Block, tokens: SeenTokens, category: int, draws: Draws
) -> None:
    """Cells that a query sees, of one category of their keys, all heads together."""
    visible = tokens.queries.unsqueeze(2) & tokens.categories.eq(category).unsqueeze(1)
    if tokens.causal:
        visible = visible.tril()  # (B, T, S)
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
    name = f"statistics.{kind}"
    layers = []
    for layer, of_layer in known.items():
        layers.append(_layer_statistics(arrays, kind, int(layer), of_layer))
    rows = arrays[f"{name}.occurrences.sample"][:, 1:]
    of_rows = int(arrays[f"{name}.occurrences.sum"][0])
    cells, relations = [], []
    for category in range(len(categories.names)):
        points = arrays[f"{name}.cells-{category}.sample"][:, 1:]
        seen = int(arrays[f"{name}.cells-{category}.sum"][0])
        cells.append(points)
        relations.append(_relation(points[:, 0], points[:, 1], seen))
    return Statistics(
        categories=categories.names,
        layers=layers,
        transformed=pooled(layer.transformed for layer in layers),
        inputs=pooled(layer.inputs for layer in layers),
        cells=relations,
        rank_weights=_relation(rows[:, 0], rows[:, 2], of_rows),
        rank_norms=_relation(rows[:, 0], rows[:, 3], of_rows),
        sampled_cells=cells,
        occurrences=rows,
    )


def _relation(first: np.ndarray, second: np.ndarray, seen: int) -> Relation:
    return Relation(spearman(first, second), len(first), seen)


def _layer_statistics(
    arrays: Mapping[str, np.ndarray], kind: str, layer: int, known: Mapping[str, Any]
) -> LayerStatistics:
    """What was gathered of one attention, and what its parameters tell."""
    name = f"statistics.{kind}.{layer}"
    sentences = arrays[f"{name}.sentences.sum"]
    singular = [np.array(of_head) for of_head in known["singular"]]
    return LayerStatistics(
        layer,
        [Head(kind, layer, number) for number in known["heads"]],
        Moments(arrays[f"{name}.transformed.moments"]),
        Moments(arrays[f"{name}.inputs.moments"]),
        arrays[f"{name}.weights.sum"] / sentences,
        arrays[f"{name}.weighted.sum"] / sentences,
        divided(arrays[f"{name}.by_category.sum"], arrays[f"{name}.having.sum"]),
        Affine(singular, known["rates"], known["rate"]),
    )


def weights_say(model: nn.Module, kinds: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Of each kind and layer that has heads: their numbers, and f as a map, as JSON holds it."""
    known: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
    for (kind, layer), attention in attentions(model).items():
        if kind in known and head_count(attention):
            f = affine(attention)
            singular = [of_head.tolist() for of_head in f.singular]
            numbers = list(head_numbers(attention))
            known[kind][str(layer)] = {**f._asdict(), "singular": singular, "heads": numbers}
    return known


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
