"""What attention blocks mix and how long their vectors are: maps of layers and categories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from fairseq_normalign.names import KINDS, parse_head
from fairseq_normalign.results.blocks import (
    Block,
    Grid,
    Note,
    Row,
    Table,
    chosen_from,
    on_one_scale,
    up_to,
)

ByCategory = Mapping[str, float | None]
AVERAGES = {
    "macro": "mean of each sentence, then of all sentences",
    "micro": "mean of all tokens",
}
LENGTHS = ("mean", "deviation", "CV", "min", "max")
ANALYSES = {
    "ATTN-W": "attention alone, by its weights α",
    "ATTN-N": "attention alone, by the lengths of the vectors it adds, ‖αf(x)‖",
    "ATTNRES-W": "attention and the residual connection, by weights: half of each",
    "ATTNRES-N": "attention and the residual connection, by lengths of vectors",
    "ATTNRESLN-N": "attention, residual connection and layer normalization, by lengths of vectors",
}
RESIDUAL = "ATTNRESLN-N"  # the whole block: what Kobayashi et al. (2021) recommend


def mixing_blocks(models: Sequence[Mapping[str, Any]]) -> list[Block]:
    """What ``normalign mixing -o`` wrote: the mixing ratio of each layer and category."""
    groups = {}
    for name, attentions in _named(models).items():
        groups[name] = _mixing_of_model(attentions)
    return chosen_from("model", groups)


def _named(models: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The attentions of each model, by the name of its checkpoint."""
    names = [Path(str(model["checkpoint"])).name for model in models]
    if len(set(names)) < len(names):
        names = [str(model["checkpoint"]) for model in models]
    return {name: model["attentions"] for name, model in zip(names, models, strict=True)}


def _mixing_of_model(attentions: Mapping[str, Any]) -> list[Block]:
    analyses = list(next(iter(attentions.values()))["analyses"])
    by_analysis = {}
    for analysis in analyses:
        by_average = {}
        for average, meaning in AVERAGES.items():
            maps = []
            for kind, mixing in attentions.items():
                layers = mixing["analyses"][analysis][average]
                maps.append(_map(f"{KINDS[kind].title}: {analysis}", layers, mixing["tokens"]))
            by_average[meaning] = [Row(on_one_scale(maps))]
        about = [Note(f"{analysis}: {ANALYSES[analysis]}.")] if analysis in ANALYSES else []
        by_analysis[analysis] = [*about, *chosen_from("average", by_average)]
    blocks = chosen_from("analysis", by_analysis, RESIDUAL)
    blocks.append(_summary(attentions))
    return blocks


def _map(title: str, layers: Sequence[ByCategory], tokens: Mapping[str, int]) -> Grid:
    """Mixing ratios in %, a row for each layer, a column for each category that has tokens."""
    categories = [name for name in layers[0] if tokens.get(name)]
    values = [[_percent(layer[name]) for name in categories] for layer in layers]
    notes = [[f"{tokens[name]:,} tokens" for name in categories] for _ in layers]
    rows = [str(number + 1) for number in range(len(layers))]
    return Grid(
        f"{title}, mixing ratio",
        "layer",
        "category",
        rows,
        categories,
        values,
        unit="%",
        decimals=1,
        notes=notes,
        numbers=True,
    )


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _summary(attentions: Mapping[str, Any]) -> Table:
    rows = []
    for kind, mixing in attentions.items():
        for name, measured in mixing["analyses"].items():
            shares = [_percent(measured[end]) for end in ("mean", "min", "max")]
            rhos = [measured["rho"], measured["rho_without_specials"]]
            rows.append([KINDS[kind].title, name, *shares, *rhos])
    columns = ["attention", "analysis", "mean in %", "min in %", "max in %"]
    columns += ["ρ with rank", "ρ without special tokens"]
    return Table(columns, rows, "Mixing ratios over all layers")


def statistics_blocks(models: Sequence[Mapping[str, Any]]) -> list[Block]:
    """What ``normalign stats -o`` wrote: α, ‖f(x)‖ and ‖αf(x)‖ by head, layer and category."""
    groups = {}
    for name, attentions in _named(models).items():
        of_kinds = {}
        for kind, measured in attentions.items():
            of_kinds[KINDS[kind].title] = _statistics_of_kind(measured)
        groups[name] = chosen_from("attention", of_kinds)
    return chosen_from("model", groups)


def _statistics_of_kind(measured: Mapping[str, Any]) -> list[Block]:
    layers = measured["layers"]
    categories: list[Block] = [
        _category_map("Σ α over the keys of a category", layers, "weights"),
        _category_map("Σ ‖αf(x)‖ over the keys of a category", layers, "weighted_norms"),
        _category_map("‖f(x)‖, mean over the keys of a category", layers, "mean_norms_of_f"),
    ]
    heads: list[Block] = [
        _head_map("mean ‖f(x)‖", layers, lambda head: head["norms_of_f"]["mean"]),
        _head_map("coefficient of variation of ‖f(x)‖", layers, _variation),
        _head_map("expansion rate", layers, lambda head: head["expansion_rate"]),
    ]
    means = Note(
        "Maps of categories show means over heads; ρ is Spearman's rank correlation. The expansion "
        "rate is how much longer f(x) is than x, for vectors of any direction."
    )
    return [means, Row(categories), Row(heads), _lengths(measured), *_relations(measured)]


def _variation(head: Mapping[str, Any]) -> float | None:
    return head["norms_of_f"]["CV"]


def _category_map(title: str, layers: Sequence[Mapping[str, Any]], name: str) -> Grid:
    first = next(iter(layers[0]["heads"].values()))
    categories = list(first[name])
    values = []
    for layer in layers:
        row = []
        for category in categories:
            row.append(_mean(head[name][category] for head in layer["heads"].values()))
        values.append(row)
    rows = [str(layer["layer"]) for layer in layers]
    return Grid(title, "layer", "category", rows, categories, values, numbers=True)


def _mean(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _head_map(
    title: str,
    layers: Sequence[Mapping[str, Any]],
    value: Callable[[Mapping[str, Any]], float | None],
) -> Grid:
    places: set[int] = set()
    for layer in layers:
        places.update(parse_head(name).head for name in layer["heads"])
    heads = up_to(max(places))
    values: list[list[float | None]] = []
    for layer in layers:
        row: list[float | None] = [None] * len(heads)
        for name, head in layer["heads"].items():
            row[parse_head(name).head] = value(head)
        values.append(row)
    rows = [str(layer["layer"]) for layer in layers]
    columns = [str(head + 1) for head in heads]
    return Grid(title, "layer", "head", rows, columns, values, absent="removed")


def _lengths(measured: Mapping[str, Any]) -> Table:
    rows = []
    for layer in measured["layers"]:
        lengths = [layer["norms_of_x"][name] for name in LENGTHS]
        rows.append([f"‖x‖, layer {layer['layer']}", *lengths, layer["expansion_rate"]])
    for title, name in {"‖x‖, all": "norms_of_x", "‖f(x)‖, all": "norms_of_f"}.items():
        rows.append([title, *(measured[name][length] for length in LENGTHS), None])
    return Table(["", *LENGTHS, "expansion rate"], rows, "Lengths of vectors")


def _relations(measured: Mapping[str, Any]) -> list[Block]:
    relations = {
        f"α with ‖f(x)‖: {name}": relation
        for name, relation in measured["weight_with_norm"].items()
    }
    relations["frequency rank with α"] = measured["rank_with_weight"]
    relations["frequency rank with ‖f(x)‖"] = measured["rank_with_norm"]
    rows = []
    for name, relation in relations.items():
        if relation["of"]:
            rows.append([name, relation["rho"], f"{relation['points']:,} of {relation['of']:,}"])
    return [Table(["", "ρ", "points"], rows, "Rank correlations (Spearman)")] if rows else []
