"""Models with more and fewer heads side by side: a table, JSON, pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fairseq_normalign.heads.names import KINDS
from fairseq_normalign.report.columns import columns

if TYPE_CHECKING:
    from fairseq_normalign.analysis.evaluation import Row

SHORT_NAMES = ", ".join(f"{kind.short} {kind.title}" for kind in KINDS.values())
LEGEND = f"""\
Heads: {SHORT_NAMES}. Parameters in millions and in MB.
Speed: generated tokens per second of process time, as a multiple of the first model's."""


def heads_of(row: Row, kind: str | None = None) -> int:
    """How many heads a model has, of one kind of attention or in all."""
    return sum(heads for (own, _), heads in row.heads.items() if kind in (None, own))


def comparison_table(rows: Sequence[Row]) -> str:
    """One line for each model (Voita et al., 2019, Table 2), a legend, and signatures."""
    metrics = list(rows[0].scores)
    kinds = [kind.short for kind in KINDS.values()]
    table = [["model", "heads", *kinds, "params", "MB", *metrics, "speed"]]
    for row in rows:
        heads = [heads_of(row), *(heads_of(row, kind) for kind in KINDS)]
        sizes = [f"{row.parameters / 1e6:.2f}", f"{row.megabytes:.1f}"]
        scores = [f"{row.scores[metric]:.1f}" for metric in metrics]
        table.append([row.name, *map(str, heads), *sizes, *scores, f"{row.speed:.2f}×"])
    return "\n".join([*columns(table), LEGEND, *_signatures(rows)])


def _signatures(rows: Sequence[Row]) -> Iterator[str]:
    """One line for each score, or for each model where they differ."""
    for metric in rows[0].signatures:
        made = [row.signatures[metric] for row in rows]
        if len(set(made)) == 1:
            yield f"{metric}: {made[0]}"
        else:
            for row, signature in zip(rows, made, strict=True):
                yield f"{metric} of {row.name}: {signature}"


def as_json(rows: Sequence[Row]) -> list[dict]:
    """Rows as JSON takes them, with the heads of each layer."""
    return list(map(_row_as_json, rows))


def _row_as_json(row: Row) -> dict:
    by_kind: dict[str, list[int]] = {f"{kind}_heads": [] for kind in KINDS}
    for (kind, _), heads in row.heads.items():
        by_kind[f"{kind}_heads"].append(heads)
    return {
        "model": row.name,
        "heads": heads_of(row),
        **by_kind,
        "parameters": row.parameters,
        "megabytes": round(row.megabytes, 3),
        **{metric: round(value, 6) for metric, value in row.scores.items()},
        "speed": round(row.speed, 4),
        "signatures": row.signatures,
    }


def pruning_picture(rows: Sequence[Row]) -> Figure:
    """BLEU and heads of each kind against all heads, heads of each layer.

    As in Voita et al. (2019), Fig. 7, 9 and 10.
    """
    rows = sorted(rows, key=heads_of)
    sizes = [3.6, 3.6, 1.2 + 0.28 * len(_attentions(rows))]
    height = max(3.2, 1.4 + 0.32 * len(rows))
    figure = Figure(figsize=(sum(sizes) + 0.9, height), layout="constrained")
    FigureCanvasAgg(figure)
    quality, kinds, layers = figure.subplots(1, 3, width_ratios=sizes)
    draw_quality(quality, rows)
    draw_kinds(kinds, rows)
    draw_layers(layers, rows)
    return figure


def draw_quality(axes: Axes, rows: Sequence[Row]) -> None:
    counts = [heads_of(row) for row in rows]
    scores = [row.scores["BLEU"] for row in rows]
    axes.plot(counts, scores, marker="o")
    look: dict[str, Any] = {"textcoords": "offset points", "fontsize": "x-small"}
    for row, count, score in zip(rows, counts, scores, strict=True):
        axes.annotate(row.name, (count, score), xytext=(5, -9), **look)
    axes.margins(x=0.25, y=0.15)
    _label(axes, "BLEU", "BLEU against retained heads")


def draw_kinds(axes: Axes, rows: Sequence[Row]) -> None:
    totals = [heads_of(row) for row in rows]
    for name, kind in KINDS.items():
        counts = [heads_of(row, name) for row in rows]
        axes.plot(totals, counts, marker="o", label=kind.title)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize="x-small")
    _label(axes, "heads of this kind", "Heads by kind of attention")


def draw_layers(axes: Axes, rows: Sequence[Row]) -> None:
    """Numbers of heads: a row for each model, most heads on top, a column for each layer."""
    rows = rows[::-1]
    names = _attentions(rows)
    counts = [_counts(row, names) for row in rows]
    most = max(map(max, counts))
    axes.imshow(counts, cmap="Blues", vmin=0, vmax=1.4 * max(most, 1), aspect="auto")
    for y, of_model in enumerate(counts):
        for x, heads in enumerate(of_model):
            colour = "white" if 1.3 * heads > most else "black"
            axes.text(x, y, str(heads), ha="center", va="center", color=colour)
    for x in range(1, len(names)):
        if names[x][0] != names[x - 1][0]:
            axes.axvline(x - 0.5, color="black", lw=1)
    labels = [f"{KINDS[kind].short}\n{layer + 1}" for kind, layer in names]
    axes.set_xticks(range(len(names)), labels)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set_title("Heads by layer", fontsize="medium")


def _counts(row: Row, names: Sequence[tuple[str, int]]) -> list[int]:
    """How many heads a model has in each of the named attentions."""
    return [row.heads.get(name, 0) for name in names]


def _attentions(rows: Sequence[Row]) -> list[tuple[str, int]]:
    """The attentions that some model has, by kind and layer."""
    order = list(KINDS)
    names = set().union(*(row.heads for row in rows))
    return sorted(names, key=lambda name: (order.index(name[0]), name[1]))


def _label(axes: Axes, y: str, title: str) -> None:
    axes.set_xlabel("heads in all")
    axes.set_ylabel(y)
    axes.set_title(title, fontsize="medium")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
