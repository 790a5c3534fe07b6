"""How gates and relevance of heads moved together in a training: a table and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fairseq_normalign.heads.relevance_log import (
    Entry,
    GatedHead,
    agreement,
    mean_relevance,
)
from fairseq_normalign.names import KINDS, Head, by_kind
from fairseq_normalign.results.columns import columns
from fairseq_normalign.results.style import COLOURS, in_style

NOTHING = "–"
LEGEND = """\
Open heads at test time; the mean relevance of heads that are open after the last update (stay) and
of those that are closed (go); the rank correlation of P(open) with the relevance of the same line
(now) and of the first line (first)."""
GAP = 0.045  # between labels, as a share of the height
KEPT, GONE = COLOURS[:2]
PANELS = {"relevance": "share of the layer's relevance", "open": "P(gate open)"}


def table(entries: Sequence[Entry]) -> str:
    """A line for each entry, and a legend."""
    kinds = by_kind(entries[-1].heads)
    stay = entries[-1].open_heads()
    go = [head for head in entries[-1].heads if head not in set(stay)]
    rows = [["updates", "open", *kinds, "stay", "go", "now", "first"]]
    for entry in entries:
        opened = entry.open_heads()
        by_own_kind = by_kind(opened)
        row = [str(entry.updates), str(len(opened))]
        row += [str(len(by_own_kind.get(kind, []))) for kind in kinds]
        row += [_share(mean_relevance(entry, stay)), _share(mean_relevance(entry, go))]
        row.append(_rho(agreement(entry, entry, entry.heads)))
        row.append(_rho(agreement(entry, entries[0], entry.heads)))
        rows.append(row)
    return "\n".join([*columns(rows, left=()), LEGEND])


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"


def _rho(value: float | None) -> str:
    return NOTHING if value is None else f"{value:+.2f}"


@in_style
def picture(entries: Sequence[Entry]) -> Figure:
    """Relevance and P(open) of every head by updates, a column of panels for each kind.

    Heads that are closed in the end are dashed.
    """
    kinds = by_kind(entries[-1].heads)
    size = (4.2 * len(kinds), 6.2)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(PANELS), len(kinds), squeeze=False, sharex=True)
    for line, (name, label) in zip(panels, PANELS.items(), strict=True):
        for axes, (kind, heads) in zip(line, kinds.items(), strict=True):
            draw(axes, entries, heads, name)
            axes.set_ylabel(label)
            if name == "relevance":
                axes.set_title(KINDS[kind].title)
            else:
                axes.set_xlabel("updates")
    figure.legend(handles=_legend(), loc="outside lower center", ncols=2)
    return figure


def draw(axes: Axes, entries: Sequence[Entry], heads: Sequence[Head], name: str) -> None:
    """A line for each head, with its layer and number where it ends."""
    updates = [entry.updates for entry in entries]
    place = GatedHead._fields.index(name)
    ends = []
    for head in heads:
        values = [entry.heads[head][place] for entry in entries]
        is_open = entries[-1].heads[head].gate > 0
        axes.plot(updates, values, **_look(is_open))
        ends.append(values[-1])
    span = max(1, updates[-1] - updates[0])
    for head, height in zip(heads, spread(ends, GAP), strict=True):
        label = f"{head.layer + 1}.{head.head + 1}"
        axes.text(updates[-1] + 0.03 * span, height, label, va="center", fontsize="x-small")
    axes.set_xlim(updates[0] - 0.03 * span, updates[-1] + 0.12 * span)
    axes.set_ylim(-0.05, 1.05)


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Heights of labels in the same order, a gap apart at least, from the lowest upwards.

    What then stands above 1 is moved down again, if all of them fit.
    """
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    moved = list(heights)
    for below, above in pairwise(order):
        moved[above] = max(moved[above], moved[below] + gap)
    ceiling = max(1.0, gap * (len(order) - 1))
    for index in reversed(order):
        moved[index] = min(moved[index], ceiling)
        ceiling = moved[index] - gap
    return moved


def _look(is_open: bool) -> dict:
    if is_open:
        return {"color": KEPT, "ls": "-", "lw": 1.4, "marker": ".", "ms": 4}
    return {"color": GONE, "ls": "--", "lw": 1.0, "marker": ".", "ms": 4}


def _legend() -> list[Line2D]:
    labels = {"open in the end": True, "closed in the end": False}
    return [Line2D([], [], label=label, **_look(is_open)) for label, is_open in labels.items()]
