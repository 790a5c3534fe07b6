"""Models with more and fewer heads, and gates while they close."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairseq_normalign.heads.relevance_log import Entry, GatedHead
from fairseq_normalign.names import KINDS, by_kind
from fairseq_normalign.results.blocks import Block, Curve, Curves, Point, Row, Table

SIZES = ("heads", "parameters", "megabytes", "speed")
KNOWN = ("model", "names", "signatures", "scratch", *SIZES, *(f"{kind}_heads" for kind in KINDS))
LOW = ("AER", "TER")  # the lower, the better
CLOSED = "Dashed: closed in the end."
GATES = {"open": "P(gate open)", "relevance": "share of the layer's relevance"}


def comparison_blocks(models: Sequence[Mapping[str, Any]]) -> list[Block]:
    """What ``normalign evaluate -o`` wrote, as after ``prune``: scores against heads left."""
    metrics = [name for name in models[0] if name not in KNOWN]
    curves: list[Block] = [_against_heads(metric, models) for metric in metrics]
    return [Row(curves), _table(metrics, models), _signatures(models)]


def _against_heads(metric: str, models: Sequence[Mapping[str, Any]]) -> Curves:
    ordered = sorted(models, key=lambda model: model["heads"])
    curves = [Curve("from trained", [_point(metric, model) for model in ordered])]
    from_scratch = [model["scratch"] for model in ordered if "scratch" in model]
    if from_scratch:
        points = [_point(metric, model) for model in from_scratch]
        curves.append(Curve("from scratch", points, dashed=True))
    return Curves(
        f"{metric} against heads left",
        "heads",
        metric,
        curves,
        decimals=1,
        about="lower is better" if metric in LOW else "",
    )


def _point(metric: str, model: Mapping[str, Any]) -> Point:
    return Point(model["heads"], model[metric], note=str(model["model"]))


def _table(metrics: Sequence[str], models: Sequence[Mapping[str, Any]]) -> Table:
    kinds = [kind.title for kind in KINDS.values()]
    rows = []
    for model in models:
        by_layer = [" ".join(map(str, model[f"{kind}_heads"])) for kind in KINDS]
        scores = [model[metric] for metric in metrics]
        sizes = [model["parameters"] / 1e6, model["speed"]]
        rows.append([str(model["model"]), model["heads"], *by_layer, *scores, *sizes])
    columns = ["model", "heads", *kinds, *metrics, "million parameters", "speed"]
    return Table(columns, rows, "Models; heads of each attention by layer")


def _signatures(models: Sequence[Mapping[str, Any]]) -> Table:
    rows: dict[tuple[str, str], None] = {}
    for model in models:
        for metric, signature in model["signatures"].items():
            rows[str(metric), str(signature)] = None
    return Table(["score", "signature"], list(rows), "How scores were made")


def gate_blocks(entries: Sequence[Entry]) -> list[Block]:
    """Gates and relevance of every head by updates; heads that are closed in the end are dashed."""
    kinds = by_kind(entries[-1].heads)
    rows: list[Block] = []
    for name, title in GATES.items():
        place = GatedHead._fields.index(name)
        panels: list[Block] = []
        for kind, heads in kinds.items():
            layers = sorted({head.layer for head in heads})
            curves = []
            for head in heads:
                points = [Point(entry.updates, entry.heads[head][place]) for entry in entries]
                is_closed = not entries[-1].heads[head].gate > 0
                curves.append(Curve(str(head), points, is_closed, layers.index(head.layer)))
            panels.append(
                Curves(
                    f"{KINDS[kind].title}: {title}",
                    "updates",
                    title,
                    curves,
                    zero=True,
                    dashes=CLOSED,
                    colours=[f"layer {layer + 1}" for layer in layers],
                )
            )
        rows.append(Row(panels))
    return [_open_heads(entries), *rows]


def _open_heads(entries: Sequence[Entry]) -> Curves:
    """How many heads of each kind are open at test time."""
    curves = []
    for kind in by_kind(entries[-1].heads):
        points = []
        for entry in entries:
            opened = [head for head in entry.open_heads() if head.kind == kind]
            points.append(Point(entry.updates, len(opened)))
        curves.append(Curve(KINDS[kind].title, points))
    return Curves("Heads whose gate is open", "updates", "heads", curves, decimals=0, zero=True)
