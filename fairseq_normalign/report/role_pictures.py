"""Functions of heads as pictures that can be read without colour: letters and hatches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from fairseq_normalign.names import KINDS, Head
from fairseq_normalign.report.roles import CATEGORIES, Does, Model
from fairseq_normalign.results.style import in_style


class Look(NamedTuple):
    """How a category of heads is drawn."""

    letter: str
    colour: str
    hatch: str


LOOKS = {
    "positional": Look("P", "#9ecae1", "///"),
    "syntactic": Look("S", "#fdbe85", "xxx"),
    "rare": Look("R", "#a1d99b", "..."),
    "last": Look("L", "#bcbddc", "\\\\\\"),
    "several": Look("", "#fc9272", "++"),
    "none": Look("", "white", ""),
}
GONE = "lightgrey"
EDGE: dict[str, Any] = {"edgecolor": "black", "lw": 0.6}


@in_style
def columns_picture(models: Sequence[Model], kinds: Sequence[str]) -> Figure:
    """One stacked column of heads for each model (Voita et al., 2019, Fig. 8), a panel for a kind.

    Numbers in the columns are those of heads and, where some have several roles, of roles.
    """
    width = 1.6 + 0.95 * len(models)
    figure = Figure(figsize=(width * len(kinds) + 1.6, 4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, kind in zip(figure.subplots(1, len(kinds), squeeze=False)[0], kinds, strict=True):
        draw_columns(axes, models, kind)
    figure.legend(handles=legend(), loc="outside right upper", fontsize="small")
    return figure


def draw_columns(axes: Axes, models: Sequence[Model], kind: str) -> None:
    totals = []
    for place, model in enumerate(models):
        heads, roles = model.counts(kind), model.role_counts(kind)
        bottom = 0
        for name in CATEGORIES:
            if heads[name]:
                look = LOOKS[name]
                axes.bar(
                    place, heads[name], bottom=bottom, color=look.colour, hatch=look.hatch, **EDGE
                )
                text = str(heads[name])
                if roles[name] > heads[name]:
                    text += f"\n({roles[name]} roles)"
                _write(axes, place, bottom + heads[name] / 2, text)
                bottom += heads[name]
        totals.append(bottom)
    labels = [f"{model.name} ({total})" for model, total in zip(models, totals, strict=True)]
    axes.set_xticks(range(len(models)), labels, fontsize="small", rotation=30, ha="right")
    axes.set_xlim(-0.6, len(models) - 0.4)
    axes.set_ylim(0, 1.05 * max(1, *totals))
    axes.set_ylabel("heads")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(KINDS[kind].title, fontsize="medium")


def draw_functions(
    axes: Axes, heads: Mapping[Head, Does], shape: tuple[int, ...], title: str
) -> None:
    """Layers × heads: the letters of what each head does; grey where there is no such head."""
    axes.set_facecolor(GONE)
    for head, does in heads.items():
        look = LOOKS[does.category]
        corner = (head.head - 0.5, head.layer - 0.5)
        axes.add_patch(Rectangle(corner, 1, 1, facecolor=look.colour, hatch=look.hatch, **EDGE))
        letters = "".join(LOOKS[name].letter for name in does.functions)
        if letters:
            _write(axes, head.head, head.layer, letters)
    layers, widest = shape
    axes.set_xlim(-0.5, widest - 0.5)
    axes.set_ylim(layers - 0.5, -0.5)
    label_heads(axes, shape, title)


def label_heads(axes: Axes, shape: tuple[int, ...], title: str) -> None:
    """The numbers of layers and heads along a map of them, from 1."""
    layers, heads = shape
    axes.set_xticks(range(heads), [str(head) for head in range(1, heads + 1)])
    axes.set_yticks(range(layers), [str(layer) for layer in range(1, layers + 1)])
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    axes.set_title(title, fontsize="small")


def _write(axes: Axes, x: float, y: float, text: str) -> None:
    """Text on a white ground, that hatches do not cross."""
    ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.2}
    axes.text(x, y, text, ha="center", va="center", fontsize="small", bbox=ground)


def legend() -> list[Patch]:
    """A patch for each category, with its letter."""
    patches = []
    for name, look in LOOKS.items():
        label = f"{look.letter}: {name}" if look.letter else name
        patches.append(Patch(facecolor=look.colour, hatch=look.hatch, label=label, **EDGE))
    return patches
