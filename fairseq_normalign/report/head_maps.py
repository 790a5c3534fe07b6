"""Scores of heads as heat maps, and beside them what heads are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fairseq_normalign.heads.criteria import Criteria
from fairseq_normalign.heads.profile import Profile
from fairseq_normalign.names import Head, by_kind
from fairseq_normalign.report.role_pictures import GONE, draw_functions, label_heads, legend
from fairseq_normalign.report.roles import Does
from fairseq_normalign.results.style import HEAT, in_style

PANEL = (2.6, 2.4)  # inches


@in_style
def picture(profile: Profile, criteria: Criteria) -> Figure:
    """Layers × heads: a row of panels for each kind of attention, a column for each score.

    The last column has the functions of heads (Voita et al., 2019, Fig. 1c), where a role was
    measured. All panels count layers and heads alike, also where pruning has removed them.
    """
    kinds = by_kind(profile.heads)
    names = list(profile.scores)
    measured = _kinds_with_roles(profile)
    wide, high = len(names) + bool(measured), len(kinds)
    figure = Figure(figsize=(PANEL[0] * wide, PANEL[1] * high), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(high, wide, squeeze=False)
    shape = extent(profile.heads)
    for line, (kind, heads) in zip(panels, kinds.items(), strict=True):
        for axes, name in zip(line, names, strict=False):
            draw(axes, grid(profile.scores[name], heads, shape), f"{kind}: {name}")
        if kind in measured:
            does = {head: _does(profile, head, criteria) for head in heads}
            draw_functions(line[-1], does, shape, f"{kind}: functions")
        elif measured:
            line[-1].set_axis_off()
    if measured:
        figure.legend(
            handles=legend(), loc="outside lower right", ncols=min(6, 2 * wide), fontsize="small"
        )
    return figure


def _kinds_with_roles(profile: Profile) -> set[str]:
    """The kinds of attention that some role was measured of."""
    heads = [*profile.positions, *profile.rare, *profile.parsed]
    return {head.kind for head in heads}


def _does(profile: Profile, head: Head, criteria: Criteria) -> Does:
    return Does(profile.functions(head, criteria), profile.roles(head, criteria))


def draw(axes: Axes, values: np.ndarray, title: str) -> None:
    """One panel; nothing where nothing was measured."""
    if np.isnan(values).all():
        axes.set_axis_off()
        return
    axes.set_facecolor(GONE)
    image = axes.imshow(values, cmap=HEAT, aspect="auto")
    axes.figure.colorbar(image, ax=axes)
    label_heads(axes, values.shape, title)


def extent(heads: Sequence[Head]) -> tuple[int, int]:
    """How many layers and heads a map has that all of these are in, (L, H)."""
    layers = 1 + max(head.layer for head in heads)
    widest = 1 + max(head.head for head in heads)
    return layers, widest


def grid(scores: Mapping[Head, float], heads: Sequence[Head], shape: tuple[int, int]) -> np.ndarray:
    """Scores by layer and head, (L, H); nan where there is no such head."""
    values = np.full(shape, np.nan)
    for head in heads:
        values[head.layer, head.head] = scores.get(head, np.nan)
    return values
