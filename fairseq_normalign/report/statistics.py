"""Statistics of α and ‖f(x)‖ as text and JSON.

What is shown is of one model, or the mean and deviation of several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fairseq_normalign.layers.moments import Moments
from fairseq_normalign.layers.statistics import LayerStatistics, Relation, Statistics
from fairseq_normalign.names import KINDS
from fairseq_normalign.report.mixing import cell
from fairseq_normalign.results.columns import columns

LENGTHS = ("mean", "deviation", "CV", "min", "max")

ByKind = Mapping[str, Statistics]


def as_text(models: Sequence[ByKind]) -> str:
    """For each kind of attention: lengths, categories, correlations."""
    parts = []
    for kind in models[0]:
        of_kind = [by_kind[kind] for by_kind in models]
        parts.append(f"{KINDS[kind].title}\n{lengths_table(of_kind)}")
        for title, of_layer in AVERAGES.items():
            parts.append(f"{title}\n{categories_table(of_kind, of_layer)}")
        parts.append(f"rank correlations (Spearman)\n{relations_table(of_kind)}")
    return "\n\n".join(parts)


def lengths(moments: Moments, place: int = 0) -> list[float]:
    """Mean, deviation, CV, min and max of one quantity."""
    columns_of = (moments.mean, moments.deviation, moments.variation, moments.low, moments.high)
    return [float(column[place]) for column in columns_of]


def lengths_table(models: Sequence[Statistics]) -> str:
    """Lengths of f(x) for each head, of x for each layer, and of both for all; expansion rates."""
    rows = [["", *LENGTHS, "expansion rate"]]
    first = models[0]
    for number, layer in enumerate(first.layers):
        same = [model.layers[number] for model in models]
        rates = [of_model.affine.rate for of_model in same]
        inputs = [lengths(of_model.inputs) for of_model in same]
        rows.append([f"‖x‖, layer {layer.layer + 1}", *_cells(inputs), cell(rates, ".2f")])
        for place, head in enumerate(layer.heads):
            of_head = [lengths(of_model.transformed, place) for of_model in same]
            rates = [of_model.affine.rates[place] for of_model in same]
            rows.append([f"‖f(x)‖, {head}", *_cells(of_head), cell(rates, ".2f")])
    rows.append(["‖x‖, all", *_cells([lengths(model.inputs) for model in models]), ""])
    rows.append(["‖f(x)‖, all", *_cells([lengths(model.transformed) for model in models]), ""])
    return "\n".join(columns(rows))


def _cells(models: Sequence[Sequence[float]]) -> list[str]:
    return [cell(numbers, ".2f") for numbers in zip(*models, strict=True)]


AVERAGES: dict[str, Callable[[LayerStatistics], np.ndarray]] = {
    "Σ α over the keys of a category, mean over queries, sentences and heads": (
        lambda layer: layer.weights
    ),
    "Σ ‖αf(x)‖ over the keys of a category, mean over queries, sentences and heads": (
        lambda layer: layer.weighted
    ),
    "‖f(x)‖, mean over the keys of a category, sentences and heads": (
        lambda layer: layer.by_category
    ),
}


def categories_table(
    models: Sequence[Statistics], of_layer: Callable[[LayerStatistics], np.ndarray]
) -> str:
    """A row for each layer, a column for each category; means over heads."""
    kept = shown_categories(models[0])
    rows = [["layer", *(models[0].categories[place] for place in kept)]]
    for number, layer in enumerate(models[0].layers):
        means = [of_layer(model.layers[number]).mean(0) for model in models]  # (K,) each
        numbers = [cell([mean[place] for mean in means], ".3f") for place in kept]
        rows.append([str(layer.layer + 1), *numbers])
    return "\n".join(columns(rows, left=()))


def shown_categories(model: Statistics) -> list[int]:
    """The places of the categories that have tokens."""
    return [place for place, relation in enumerate(model.cells) if relation.of]


def relations_table(models: Sequence[Statistics]) -> str:
    """α with ‖f(x)‖ by category, and frequency rank with both."""
    rows = [["", "ρ", "points"]]
    first = models[0]
    for place in shown_categories(first):
        relations = [model.cells[place] for model in models]
        rows.append(_relation_row(f"α, ‖f(x)‖: {first.categories[place]}", relations))
    of_weights = [model.rank_weights for model in models]
    of_norms = [model.rank_norms for model in models]
    rows.append(_relation_row("frequency rank, α", of_weights))
    rows.append(_relation_row("frequency rank, ‖f(x)‖", of_norms))
    return "\n".join(columns(rows, left=(0, 2)))


def _relation_row(name: str, relations: Sequence[Relation]) -> list[str]:
    first = relations[0]
    sampled = "" if first.points == first.of else f" of {first.of:,}, at random"
    rhos = [relation.rho for relation in relations]
    return [name, cell(rhos, "+.2f"), f"{first.points:,}{sampled}"]


def as_json(
    models: Sequence[ByKind], paths: Sequence[str], signature: Mapping[str, Any]
) -> dict[str, Any]:
    """Everything but the sampled points, of each model by itself."""
    contents = []
    for path, by_kind in zip(paths, models, strict=True):
        of_kinds = {kind: statistics_as_json(measured) for kind, measured in by_kind.items()}
        contents.append({"checkpoint": path, "attentions": of_kinds})
    return {"signature": dict(signature), "models": contents}


def statistics_as_json(measured: Statistics) -> dict[str, Any]:
    relations = zip(measured.categories, measured.cells, strict=True)
    return {
        "norms_of_x": _named_lengths(measured.inputs),
        "norms_of_f": _named_lengths(measured.transformed),
        "layers": [_layer_as_json(layer, measured.categories) for layer in measured.layers],
        "weight_with_norm": {name: relation._asdict() for name, relation in relations},
        "rank_with_weight": measured.rank_weights._asdict(),
        "rank_with_norm": measured.rank_norms._asdict(),
    }


def _layer_as_json(layer: LayerStatistics, categories: Sequence[str]) -> dict[str, Any]:
    heads = {}
    for place, head in enumerate(layer.heads):
        heads[str(head)] = {
            "norms_of_f": _named_lengths(layer.transformed, place),
            "expansion_rate": layer.affine.rates[place],
            "singular_values": layer.affine.singular[place].tolist(),
            "weights": _named(categories, layer.weights[place]),
            "weighted_norms": _named(categories, layer.weighted[place]),
            "mean_norms_of_f": _named(categories, layer.by_category[place]),
        }
    return {
        "layer": layer.layer + 1,
        "norms_of_x": _named_lengths(layer.inputs),
        "expansion_rate": layer.affine.rate,
        "heads": heads,
    }


def _named_lengths(moments: Moments, place: int = 0) -> dict[str, float | None]:
    return _named(LENGTHS, lengths(moments, place))


def _named(names: Sequence[str], numbers: Sequence[float] | np.ndarray) -> dict[str, float | None]:
    """Numbers by name; None for what is not defined."""
    measured = {}
    for name, number in zip(names, numbers, strict=True):
        measured[name] = None if math.isnan(number) else float(number)
    return measured
