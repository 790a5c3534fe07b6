"""How representations evolve, as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fairseq_normalign.layers.evolution import SHUFFLED, Evolution, Evolutions
from fairseq_normalign.layers.evolution_plan import ALL, ANY
from fairseq_normalign.results.style import HEAT, in_style

MEASURES = {
    "identity": "same token",
    "left": "same token to the left",
    "right": "same token to the right",
    "position": "distance of positions",
}
CHANCE: dict[str, Any] = {"color": "grey", "ls": "--", "lw": 1}
COLUMNS = 3


@in_style
def picture(evolutions: Evolutions) -> Figure:
    """Curves over layers: of all models in each panel, then change and influence of each model."""
    rows = 2 + len(evolutions.models)
    figure = Figure(figsize=(4 * COLUMNS, 3 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, COLUMNS, squeeze=False)
    shared = [*panels[0], *panels[1]]
    for axes, (name, title) in zip(shared, MEASURES.items(), strict=False):
        _draw_measure(axes, evolutions, name, title)
    _draw_information(shared[4], evolutions)
    _draw_between(shared[5], evolutions)
    for line, model in zip(panels[2:], evolutions.models, strict=True):
        _draw_groups(line[0], f"{model.name}: change", model.change)
        _draw_groups(line[1], f"{model.name}: influence", model.influence)
        _draw_layers(line[2], model)
    return figure


def _draw_measure(axes: Axes, evolutions: Evolutions, name: str, title: str) -> None:
    """One measure of neighbours by layer, and that of neighbours drawn at random."""
    for model in evolutions.models:
        values = getattr(model, name)
        axes.plot(range(len(values)), values, marker="o", label=model.name)
    axes.axhline(evolutions.random[name], label="random", **CHANCE)
    _finish(axes, title)


def _draw_information(axes: Axes, evolutions: Evolutions) -> None:
    """Mutual information, that of shuffled tokens dashed, all that there is to know dotted."""
    for model in evolutions.models:
        layers = range(len(model.information))
        (line,) = axes.plot(layers, model.information, marker="o", label=model.name)
        look = {**CHANCE, "color": line.get_color()}
        axes.plot(layers, model.shuffled_information, **look)
    axes.axhline(evolutions.ceiling, color="grey", ls=":", lw=1, label="ceiling")
    _finish(axes, "information with tokens, nats (dashed: shuffled)")


def _draw_between(axes: Axes, evolutions: Evolutions) -> None:
    """Distances of the same layers of two models."""
    if not evolutions.between:
        axes.set_axis_off()
        return
    for (first, second), matrix in evolutions.between.items():
        values = [matrix[layer][layer] for layer in range(min(len(matrix), len(matrix[0])))]
        axes.plot(range(len(values)), values, marker="o", label=f"{first} – {second}")
    _finish(axes, "PWCCA distance between models")


def _draw_groups(axes: Axes, title: str, by_group: Mapping[str, Sequence[float]]) -> None:
    """Curves of all groups of frequency, the rarest darkest; the title tells what shuffling gives.

    That is far above the curves.
    """
    if not by_group:
        axes.set_axis_off()
        return
    groups = [name for name in by_group if name not in (ALL, ANY, SHUFFLED)]
    shades = mpl.colormaps["viridis"](np.linspace(0, 0.9, len(groups)))
    colours = dict(zip(groups, shades, strict=True))
    for name, values in by_group.items():
        if name != SHUFFLED:
            look = {"color": colours[name]} if name in groups else {"color": "black", "ls": "--"}
            axes.plot(range(1, len(values) + 1), values, marker="o", label=name, **look)
    if SHUFFLED in by_group:
        title += f" (shuffled: {min(by_group[SHUFFLED]):.2f} or more)"
    axes.set_ylim(bottom=0)
    _finish(axes, title)


def _draw_layers(axes: Axes, model: Evolution) -> None:
    """Distances between all layers."""
    if not model.layers:
        axes.set_axis_off()
        return
    image = axes.imshow(model.layers, cmap=HEAT, vmin=0)
    axes.figure.colorbar(image, ax=axes)
    layers = range(len(model.layers))
    axes.set_xticks(layers)
    axes.set_yticks(layers)
    axes.set_title(f"{model.name}: PWCCA distance of layers", fontsize="small")


def _finish(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize="small")
    axes.set_xlabel("layer")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize="x-small")


@in_style
def words_picture(evolutions: Evolutions) -> Figure:
    """States of words by their first two principal components: models × layers."""
    models = evolutions.models
    layers = max(len(model.planes) for model in models)
    figure = Figure(figsize=(2.6 * layers, 2.7 * len(models) + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(models), layers, squeeze=False)
    words = list(dict.fromkeys(evolutions.pictured))
    of_points = np.array(evolutions.pictured)
    for line, model in zip(panels, models, strict=True):
        for layer, axes in enumerate(line):
            if layer >= len(model.planes):
                axes.set_axis_off()
                continue
            plane, share = model.planes[layer]
            for word in words:
                points = plane[of_points == word]
                axes.scatter(points[:, 0], points[:, 1], s=6, alpha=0.6, label=word)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_title(f"layer {layer} ({share:.0%} of variance)", fontsize="small")
        line[0].set_ylabel(model.name)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(words), markerscale=3)
    return figure
