"""Mixing ratios as text, JSON and pictures.

What is shown is of one model, or the mean and deviation of several.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fairseq_normalign.layers.analyses import ANALYSES
from fairseq_normalign.layers.mixing import Mixing
from fairseq_normalign.names import KINDS
from fairseq_normalign.results.columns import columns
from fairseq_normalign.results.spread import spread
from fairseq_normalign.results.style import HEAT, in_style

NOTHING = "–"
TITLES = {
    "macro": "mean of each sentence, then of all that have such tokens",
    "micro": "mean of all tokens",
}
HEADROOM = 1.6  # of a heat map's colours over its largest number, so that black text can be read

ByKind = Mapping[str, Mixing]


def cell(values: Sequence[float | None], form: str, scale: float = 1.0) -> str:
    """A number, or mean ± deviation of several; a dash where one of them is not defined."""
    numbers = [math.nan if value is None else scale * value for value in values]
    if any(math.isnan(number) for number in numbers):
        return NOTHING
    return format(spread(numbers), form)


def percent(values: Sequence[float | None]) -> str:
    return cell(values, ".1f", 100.0)


def as_text(models: Sequence[ByKind], analyses: Sequence[str], average: str) -> str:
    """For each kind of attention all analyses, and some by layer and category."""
    parts = []
    for kind in models[0]:
        of_kind = [by_kind[kind] for by_kind in models]
        parts.append(f"{KINDS[kind].title}\n{analyses_table(of_kind)}")
        for name in analyses:
            title = f"{name}, mixing ratio in % by layer: {TITLES[average]}"
            parts.append(f"{title}\n{layers_table(of_kind, name, average)}")
        parts.append(tokens_line(of_kind[0]))
    return "\n\n".join(parts)


def analyses_table(models: Sequence[Mixing]) -> str:
    """A row for each analysis: mean, smallest and largest ratio, and ρ with frequency rank."""
    rows = [["mixing ratio in %", "mean", "min", "max", "ρ with rank", "ρ without special tokens"]]
    for place, name in enumerate(ANALYSES):
        rows.append(
            [
                name,
                percent([model.mean[place] for model in models]),
                percent([model.low[place] for model in models]),
                percent([model.high[place] for model in models]),
                cell([model.rho[place] for model in models], "+.2f"),
                cell([model.rho_without_specials[place] for model in models], "+.2f"),
            ]
        )
    return "\n".join(columns(rows))


def layers_table(models: Sequence[Mixing], analysis: str, average: str) -> str:
    """A row for each layer, a column for each category that has tokens."""
    values = np.stack([by_layer(model, analysis, average) for model in models])  # (M, L, K+1)
    names, kept = shown_categories(models[0])
    rows = [["layer", *names]]
    for layer in range(values.shape[1]):
        cells = [percent(values[:, layer, place].tolist()) for place in kept]
        rows.append([str(layer + 1), *cells])
    return "\n".join(columns(rows, left=()))


def by_layer(model: Mixing, analysis: str, average: str) -> np.ndarray:
    """The ratios of one analysis, (L, K+1)."""
    means = model.macro if average == "macro" else model.micro
    return means[:, ANALYSES.index(analysis)]


def shown_categories(model: Mixing) -> tuple[list[str], list[int]]:
    """The names and places of the categories that have tokens, overall included."""
    kept = [place for place, tokens in enumerate(model.tokens) if tokens]
    return [model.categories[place] for place in kept], kept


def tokens_line(model: Mixing) -> str:
    """How many tokens there are, and what ρ is of."""
    counts = zip(model.categories, model.tokens.tolist(), strict=True)
    *listed, (_, total) = counts
    tokens = ", ".join(f"{count:,} {name}" for name, count in listed if count)
    of_all = "" if model.ranked == model.ranked_of else f" of {model.ranked_of:,}, at random"
    return f"{total:,} tokens: {tokens}; ρ is Spearman's over {model.ranked:,} ranked ones{of_all}"


def as_json(
    models: Sequence[ByKind], paths: Sequence[str], signature: Mapping[str, Any]
) -> dict[str, Any]:
    """Everything, of each model by itself."""
    contents = []
    for path, by_kind in zip(paths, models, strict=True):
        of_kinds = {kind: mixing_as_json(mixing) for kind, mixing in by_kind.items()}
        contents.append({"checkpoint": path, "attentions": of_kinds})
    return {"signature": dict(signature), "analyses": list(ANALYSES), "models": contents}


def mixing_as_json(mixing: Mixing) -> dict[str, Any]:
    """One kind of attention: numbers by analysis, layer and category."""
    of_analyses = {}
    for place, name in enumerate(ANALYSES):
        of_analyses[name] = {
            "mean": float(mixing.mean[place]),
            "min": float(mixing.low[place]),
            "max": float(mixing.high[place]),
            "rho": mixing.rho[place],
            "rho_without_specials": mixing.rho_without_specials[place],
            "macro": table_as_json(mixing.macro[:, place], mixing.categories),
            "micro": table_as_json(mixing.micro[:, place], mixing.categories),
        }
    return {
        "tokens": dict(zip(mixing.categories, mixing.tokens.tolist(), strict=True)),
        "ranked": mixing.ranked,
        "ranked_of": mixing.ranked_of,
        "analyses": of_analyses,
    }


def table_as_json(values: np.ndarray, names: Sequence[str]) -> list[dict[str, float | None]]:
    """A dict for each layer (L, K); None where nothing was measured."""
    layers = []
    for of_layer in values.tolist():
        numbers = [None if math.isnan(number) else number for number in of_layer]
        layers.append(dict(zip(names, numbers, strict=True)))
    return layers


@in_style
def picture(models: Sequence[ByKind], analyses: Sequence[str], average: str) -> Figure:
    """Layers × categories, a row of panels for each kind of attention, a column an analysis."""
    kinds = list(models[0])
    names, _ = shown_categories(models[0][kinds[0]])
    layers = max(len(mixing.macro) for mixing in models[0].values())
    width = (0.85 * len(names) + 0.9) * len(analyses)
    height = (0.3 * layers + 1.3) * len(kinds)
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(kinds), len(analyses), squeeze=False)
    for column, analysis in zip(panels.T, analyses, strict=True):
        ratios = {}
        for kind in kinds:
            _, kept = shown_categories(models[0][kind])
            by_model = [by_layer(by_kind[kind], analysis, average) for by_kind in models]
            ratios[kind] = 100 * np.stack(by_model)[:, :, kept].mean(0)
        top = max(float(np.nanmax(values)) for values in ratios.values())
        for axes, (kind, values) in zip(column, ratios.items(), strict=True):
            names, _ = shown_categories(models[0][kind])
            draw(axes, values, names, HEADROOM * top)
            axes.set_title(f"{KINDS[kind].title}\n{analysis}, mixing ratio in %", fontsize=9)
    return figure


def draw(axes: Axes, values: np.ndarray, names: Sequence[str], darkest: float) -> None:
    """One heat map, the number in each cell."""
    axes.imshow(values, cmap=HEAT, vmin=0, vmax=max(darkest, 1e-9), aspect="auto")
    for (layer, place), number in np.ndenumerate(values):
        text = NOTHING if math.isnan(number) else f"{number:.0f}"
        axes.text(place, layer, text, ha="center", va="center", fontsize=9)
    axes.set_xticks(range(len(names)), names, rotation=25, ha="right", fontsize=8)
    axes.set_yticks(range(len(values)), [str(layer + 1) for layer in range(len(values))])
    axes.set_ylabel("layer")
    axes.tick_params(length=0)
