"""Models with more and fewer heads side by side: a table, JSON, pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fairseq_normalign.heads.names import KINDS
from fairseq_normalign.report.columns import columns

if TYPE_CHECKING:
    from fairseq_normalign.analysis.evaluation import Row

SHORT = {"encoder": "e", "decoder": "d", "cross": "d-e"}  # as in Voita et al. (2019)
LONG = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "source–target attention",
}
LEGEND = (
    f"Heads: {', '.join(f'{SHORT[kind]} {LONG[kind]}' for kind in KINDS)}. Parameters in "
    "millions and in MB.\n"
    "Speed: generated tokens per second of process time, as a multiple of the first model's."
)


def heads_of(row: Row, kind: str | None = None) -> int:
    """How many heads a model has, of one kind of attention or in all."""
    return sum(heads for (found, _), heads in row.heads.items() if kind in (None, found))


def comparison_table(rows: Sequence[Row]) -> str:
    """One line for each model (Voita et al., 2019, Table 2), what the columns mean, and the scores'
    signatures."""
    metrics = list(rows[0].scores)
    table = [["model", "heads", *SHORT.values(), "params", "MB", *metrics, "speed"]]
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
            yield from (
                f"{metric} of {row.name}: {signature}"
                for row, signature in zip(rows, made, strict=True)
            )


def as_json(rows: Sequence[Row]) -> list[dict]:
    """Rows as JSON takes them, with the heads of each layer."""
    return [
        {
            "model": row.name,
            "heads": heads_of(row),
            **{
                f"{kind}_heads": [heads for (found, _), heads in row.heads.items() if found == kind]
                for kind in KINDS
            },
            "parameters": row.parameters,
            "megabytes": round(row.megabytes, 3),
            **{metric: round(value, 6) for metric, value in row.scores.items()},
            "speed": round(row.speed, 4),
            "signatures": row.signatures,
        }
        for row in rows
    ]


def pruning_picture(rows: Sequence[Row]) -> Figure:
    """BLEU against heads, heads of each kind against all, heads of each layer (Voita et al., 2019,
    Fig. 7, 9, 10)."""
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
    counts, scores = [heads_of(row) for row in rows], [row.scores["BLEU"] for row in rows]
    axes.plot(counts, scores, marker="o")
    for row, *place in zip(rows, counts, scores, strict=True):
        axes.annotate(
            row.name, place, xytext=(5, -9), textcoords="offset points", fontsize="x-small"
        )
    axes.margins(x=0.25, y=0.15)
    _label(axes, "BLEU", "BLEU against retained heads")


def draw_kinds(axes: Axes, rows: Sequence[Row]) -> None:
    for kind in KINDS:
        axes.plot(
            list(map(heads_of, rows)),
            [heads_of(row, kind) for row in rows],
            marker="o",
            label=LONG[kind],
        )
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize="x-small")
    _label(axes, "heads of this kind", "Heads by kind of attention")


def draw_layers(axes: Axes, rows: Sequence[Row]) -> None:
    """A row for each model, most heads on top, a column for each layer, and the number of its heads
    in each cell."""
    rows = rows[::-1]
    names = _attentions(rows)
    counts = [[row.heads.get(name, 0) for name in names] for row in rows]
    most = max(map(max, counts))
    axes.imshow(counts, cmap="Blues", vmin=0, vmax=1.4 * max(most, 1), aspect="auto")
    for y, line in enumerate(counts):
        for x, heads in enumerate(line):
            axes.text(
                x,
                y,
                heads,
                ha="center",
                va="center",
                color="white" if 1.3 * heads > most else "black",
            )
    for x in range(1, len(names)):
        if names[x][0] != names[x - 1][0]:
            axes.axvline(x - 0.5, color="black", lw=1)
    axes.set_xticks(range(len(names)), [f"{SHORT[kind]}\n{layer + 1}" for kind, layer in names])
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set_title("Heads by layer", fontsize="medium")


def _attentions(rows: Sequence[Row]) -> list[tuple[str, int]]:
    """The attentions that some model has, by kind and layer."""
    return sorted(
        {name for row in rows for name in row.heads},
        key=lambda name: (KINDS.index(name[0]), name[1]),
    )


def _label(axes: Axes, y: str, title: str) -> None:
    axes.set_xlabel("heads in all")
    axes.set_ylabel(y)
    axes.set_title(title, fontsize="medium")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
