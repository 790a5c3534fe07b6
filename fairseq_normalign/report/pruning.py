"""Models with more and fewer heads side by side: a table, JSON, pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fairseq_normalign.names import KINDS
from fairseq_normalign.results.columns import columns
from fairseq_normalign.results.style import HEAT, in_style

if TYPE_CHECKING:
    from fairseq_normalign.heads.evaluation import Row

SHORT_NAMES = ", ".join(f"{kind.short} {kind.title}" for kind in KINDS.values())
LEGEND = f"""\
Heads: {SHORT_NAMES}. Parameters in millions and in MB.
Speed: generated tokens per second of process time, as a multiple of the first model's."""


TRAINED, SCRATCH = "from trained", "from scratch"
BAR, NOTHING = "|", "–"
DRAWN = ("BLEU", "AER")  # scores that have a panel


def heads_of(row: Row, kind: str | None = None) -> int:
    """How many heads a model has, of one kind of attention or in all."""
    return sum(heads for (own, _), heads in row.heads.items() if kind in (None, own))


def comparison_table(rows: Sequence[Row]) -> str:
    """One line for each model (Voita et al., 2019, Table 2), a legend, and signatures.

    Where there are models from scratch, their scores stand beside those of the models with the same
    heads, as in the paper.
    """
    metrics = list(rows[0].scores)
    kinds = [kind.short for kind in KINDS.values()]
    from_scratch = _from_scratch(rows)
    beside = [BAR, *metrics, BAR] if from_scratch else []
    table = [["model", "heads", *kinds, "params", "MB", *metrics, *beside, "speed"]]
    for row in rows:
        heads = [heads_of(row), *(heads_of(row, kind) for kind in KINDS)]
        sizes = [f"{row.parameters / 1e6:.2f}", f"{row.megabytes:.1f}"]
        scores = _cells(row, metrics)
        if from_scratch:
            scores += [BAR, *_cells(row.scratch, metrics), BAR]
        table.append([row.name, *map(str, heads), *sizes, *scores, f"{row.speed:.2f}×"])
    lines = columns(table)
    if from_scratch:
        lines.insert(0, _titles(lines[0], metrics[0]))
    return "\n".join([*lines, LEGEND, *_signatures([*rows, *from_scratch])])


def _from_scratch(rows: Iterable[Row]) -> list[Row]:
    """The models from scratch beside some rows, each once."""
    return list({row.scratch.name: row.scratch for row in rows if row.scratch}.values())


def _cells(row: Row | None, metrics: Iterable[str]) -> list[str]:
    return [NOTHING if row is None else f"{row.scores[metric]:.1f}" for metric in metrics]


def _titles(header: str, metric: str) -> str:
    """A line above the header: what its two groups of scores are of."""
    first = header.index(metric)
    second = header.index(metric, first + 1)
    return f"{'':{first}}{TRAINED:<{second - first}}{SCRATCH}"


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
    """Rows as JSON takes them, with the heads of each layer and their names."""
    entries = []
    for row in rows:
        entry = _row_as_json(row)
        if row.scratch is not None:
            entry["scratch"] = _row_as_json(row.scratch)
        entries.append(entry)
    return entries


def _row_as_json(row: Row) -> dict:
    by_kind: dict[str, list[int]] = {f"{kind}_heads": [] for kind in KINDS}
    for (kind, _), heads in row.heads.items():
        by_kind[f"{kind}_heads"].append(heads)
    return {
        "model": row.name,
        "names": list(map(str, row.names)),
        "heads": heads_of(row),
        **by_kind,
        "parameters": row.parameters,
        "megabytes": round(row.megabytes, 3),
        **{metric: round(value, 6) for metric, value in row.scores.items()},
        "speed": round(row.speed, 4),
        "signatures": row.signatures,
    }


@in_style
def pruning_picture(rows: Sequence[Row]) -> Figure:
    """BLEU, AER and heads of each kind against heads left, heads of each layer.

    As in Voita et al. (2019), Fig. 7, 9 and 10. If models differ in the heads of one kind alone, as
    those of the encoder in Fig. 7, these are the heads that count.
    """
    varied = varied_kind(rows)
    rows = sorted(rows, key=lambda row: heads_of(row, varied))
    metrics = [metric for metric in DRAWN if metric in rows[0].scores]
    sizes = [3.6] * (len(metrics) + (varied is None))
    sizes.append(1.2 + 0.28 * len(_attentions(rows)))
    height = max(3.2, 1.4 + 0.32 * len(rows))
    figure = Figure(figsize=(sum(sizes) + 0.9, height), layout="constrained")
    FigureCanvasAgg(figure)
    *panels, layers = figure.subplots(1, len(sizes), width_ratios=sizes)
    for axes, metric in zip(panels, metrics, strict=False):
        draw_quality(axes, rows, metric, varied)
    if varied is None:
        draw_kinds(panels[-1], rows)
    draw_layers(layers, rows)
    return figure


def varied_kind(rows: Sequence[Row]) -> str | None:
    """The one kind of attention that models have different numbers of heads of, if it is one."""
    varied = [kind for kind in KINDS if len({heads_of(row, kind) for row in rows}) > 1]
    return varied[0] if len(varied) == 1 else None


def draw_quality(axes: Axes, rows: Sequence[Row], metric: str, kind: str | None) -> None:
    """A score against heads left: a line of trained models, and one of those from scratch."""
    _draw_line(axes, rows, metric, kind, marker="o", label=TRAINED)
    from_scratch = _from_scratch(rows)
    if from_scratch:
        _draw_line(axes, from_scratch, metric, kind, marker="s", ls="--", label=SCRATCH)
        axes.legend(fontsize="x-small")
    axes.margins(x=0.32, y=0.15)  # room for names
    axes.set_xlim(left=0)
    _label(axes, metric, f"{metric} against retained heads", kind)


def _draw_line(axes: Axes, rows: Sequence[Row], metric: str, kind: str | None, **look: Any) -> None:
    counts = [heads_of(row, kind) for row in rows]
    scores = [row.scores[metric] for row in rows]
    axes.plot(counts, scores, **look)
    for row, count, score in zip(rows, counts, scores, strict=True):
        axes.annotate(
            row.name,
            (count, score),
            xytext=(5, -9),
            textcoords="offset points",
            fontsize="x-small",
        )


def draw_kinds(axes: Axes, rows: Sequence[Row]) -> None:
    totals = [heads_of(row) for row in rows]
    for (name, kind), marker in zip(KINDS.items(), "os^", strict=True):
        counts = [heads_of(row, name) for row in rows]
        axes.plot(totals, counts, marker=marker, label=kind.title)
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
    axes.imshow(counts, cmap=HEAT, vmin=0, vmax=1.4 * max(most, 1), aspect="auto")
    for y, of_model in enumerate(counts):
        for x, heads in enumerate(of_model):
            axes.text(x, y, str(heads), ha="center", va="center")
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


def _label(axes: Axes, y: str, title: str, kind: str | None = None) -> None:
    axes.set_xlabel(f"heads of {KINDS[kind].title}" if kind else "heads in all")
    axes.set_ylabel(y)
    axes.set_title(title, fontsize="medium")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
