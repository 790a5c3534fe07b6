"""Scores of heads as heat maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fairseq_normalign.heads.names import Head
from fairseq_normalign.heads.profile import Profile
from fairseq_normalign.report.heads import by_kind


def picture(profile: Profile) -> Figure:
    """Layers × heads: a row of panels for each kind of attention, a column for each score."""
    kinds = by_kind(profile.heads)
    names = list(profile.scores)
    figure = Figure(figsize=(2.6 * len(names), 2.4 * len(kinds)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(kinds), len(names), squeeze=False)
    for line, (kind, heads) in zip(panels, kinds.items(), strict=True):
        for axes, name in zip(line, names, strict=True):
            draw(axes, grid(profile.scores[name], heads), f"{kind}: {name}")
    return figure


def draw(axes: Axes, values: np.ndarray, title: str) -> None:
    """One panel; nothing where nothing was measured."""
    if np.isnan(values).all():
        axes.set_axis_off()
        return
    layers, heads = values.shape
    image = axes.imshow(values, cmap="viridis", aspect="auto")
    axes.figure.colorbar(image, ax=axes)
    axes.set_title(title, fontsize="small")
    axes.set_xticks(range(heads), [str(head) for head in range(1, heads + 1)])
    axes.set_yticks(range(layers), [str(layer) for layer in range(1, layers + 1)])
    axes.set_xlabel("head")
    axes.set_ylabel("layer")


def grid(scores: Mapping[Head, float], heads: Sequence[Head]) -> np.ndarray:
    """Scores by layer and head, (L, H); nan where there is no such head."""
    layers = 1 + max(head.layer for head in heads)
    widest = 1 + max(head.head for head in heads)
    values = np.full((layers, widest), np.nan)
    for head in heads:
        values[head.layer, head.head] = scores.get(head, np.nan)
    return values
