"""Error rates of alignments, as blocks: those of layers, methods and heads, and of whole files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairseq_normalign.files import short_names
from fairseq_normalign.results.blocks import (
    Block,
    Curve,
    Curves,
    Grid,
    Note,
    Point,
    Row,
    Table,
    chosen_from,
    on_one_scale,
    up_to,
    without_empty,
)

Line = Mapping[str, Any]  # what ``align --all --json`` says of one layer, head, method and step
CHOSEN = "chosen without gold"
REMOVED = "removed"
STEPS = (
    "Dashed: align with output, where the decoder predicts a word; else with input, where it "
    "reads the word."
)
MEASURES = ("aer", "precision", "recall", "f1", "f_alpha", "p", "links", "sure")


def blocks_of(contents: Any) -> list[Block]:
    """What ``normalign align --all --json`` wrote, of one model or of several."""
    if isinstance(contents, list):
        return model_blocks(contents)
    groups = {name: model_blocks(lines) for name, lines in contents["models"].items()}
    if "mean" not in contents:
        return chosen_from("model", groups)
    lines = [_with_deviation(line) for line in contents["mean"]]
    mean = model_blocks(lines, "mean ± deviation")
    several = Note(f"Mean ± sample deviation of {len(groups)} models.")
    return chosen_from("model", {"mean of all": [several, *mean], **groups})


def _with_deviation(line: Line) -> Line:
    """A mean with its deviation as the interval."""
    if line["aer"] is None or line.get("deviation") is None:
        return line
    ends = [line["aer"] - line["deviation"], line["aer"] + line["deviation"]]
    return {**line, "interval": ends}


def model_blocks(lines: Sequence[Line], interval: str = "95 % interval") -> list[Block]:
    """Curves over layers, a table of methods, and maps of heads.

    Args:
        interval: what the intervals are.
    """
    of_layers = [line for line in lines if line["head"] is None and line["layer"] != "mean"]
    of_heads = [line for line in lines if line["head"] is not None]
    blocks: list[Block] = [Row([_curves(of_layers), _table(of_layers, interval)])]
    if of_heads:
        blocks.append(Row(_head_maps(of_heads)))
    return blocks


def _curves(lines: Iterable[Line]) -> Curves:
    points: dict[tuple[str, str], list[Point]] = {}
    for line in lines:
        if line["aer"] is None:
            continue
        low, high = line.get("interval") or (None, None)
        layer = "all" if line["layer"] is None else str(line["layer"])
        # In the mean of several models this is how many of them choose it.
        is_chosen = line.get("chosen_without_gold") and line.get("better_step_without_gold")
        point = Point(layer, line["aer"], low, high, marked=bool(is_chosen))
        points.setdefault((line["method"], line["step"]), []).append(point)
    methods = list(dict.fromkeys(method for method, _ in points))
    curves = []
    for (method, step), of_method in points.items():
        colour = methods.index(method)
        curves.append(Curve(f"{method}, {step}", of_method, step == "output", colour))
    return Curves(
        "Alignment error rate by layer and method",
        "decoder layer",
        "AER in %",
        curves,
        decimals=1,
        mark=CHOSEN,
        dashes=STEPS,
    )


def _table(lines: Sequence[Line], interval_title: str) -> Table:
    columns = ["method", "step", "layer", "AER in %", interval_title, "precision", "recall"]
    has_costs = any("cost" in line for line in lines)
    more = ["links", "chosen", *(["× forward"] if has_costs else [])]
    rows = []
    for line in lines:
        low, high = line.get("interval") or (None, None)
        interval = None if low is None else f"{low:.1f}–{high:.1f}"
        is_chosen = line.get("chosen_without_gold") and line.get("better_step_without_gold")
        row = [line["method"], line["step"], "all" if line["layer"] is None else line["layer"]]
        row += [line["aer"], interval, line.get("precision"), line.get("recall")]
        row += [line.get("links"), CHOSEN if is_chosen else ""]
        if has_costs:
            row.append(line["cost"]["forward_passes"] if "cost" in line else None)
        rows.append(row)
    return without_empty([*columns, *more], rows, "All layers and methods", decimals=1)


def _head_maps(lines: Iterable[Line]) -> list[Block]:
    """A map of layers and heads for each method and step, all on one scale."""
    by_map: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        by_map.setdefault((line["method"], line["step"]), []).append(line)
    maps = []
    for (method, step), of_map in by_map.items():
        cells = {(line["layer"], line["head"]): line for line in of_map}
        layers = [place + 1 for place in up_to(max(layer for layer, _ in cells) - 1)]
        heads = [place + 1 for place in up_to(max(head for _, head in cells) - 1)]
        values, notes = [], []
        for layer in layers:
            of_layer = [cells.get((layer, head)) for head in heads]
            values.append([None if line is None else line["aer"] for line in of_layer])
            notes.append([REMOVED if line is None else _interval(line) for line in of_layer])
        title = f"AER of single heads: {method}, {step}"
        rows, columns = list(map(str, layers)), list(map(str, heads))
        maps.append(
            Grid(
                title,
                "layer",
                "head",
                rows,
                columns,
                values,
                unit="%",
                decimals=1,
                notes=notes,
                low=True,
                absent=REMOVED,
            )
        )
    return on_one_scale(maps)


def _interval(line: Line) -> str:
    low, high = line.get("interval") or (None, None)
    return "" if low is None else f"95 % interval {low:.1f} to {high:.1f}"


def score_blocks(contents: Any) -> list[Block]:
    """What ``normalign aer -f json`` wrote of one alignment or of several."""
    systems = contents if isinstance(contents, list) else [contents]
    names = _short(systems)
    measures = [name for name in MEASURES if any(name in system for system in systems)]
    rows = []
    for system in systems:
        low, high = system.get("interval") or (None, None)
        interval = None if low is None else f"{low:.1f}–{high:.1f}"
        numbers = [_measure(name, system.get(name)) for name in measures]
        rows.append([names[system["system"]], *numbers, interval, system["signature"]])
    columns = ["alignment", *measures, "95 % interval", "signature"]
    blocks: list[Block] = [without_empty(columns, rows, "Alignments against gold, in %")]
    breakdowns = [_breakdown(kind, systems) for kind in systems[0].get("breakdown", {})]
    return [*blocks, Row(breakdowns)] if breakdowns else blocks


def _measure(name: str, value: float | None) -> float | str | None:
    """A number of a system; a p-value with as many decimals as it needs."""
    return f"{value:.3g}" if name == "p" and value is not None else value


def _short(systems: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The shortest names by which the systems can be told apart."""
    paths = [str(system["system"]) for system in systems]
    return dict(zip(paths, short_names(paths), strict=True))


def _breakdown(kind: str, systems: Sequence[Mapping[str, Any]]) -> Curves:
    """Error rates by band, as of length."""
    curves = []
    names = _short(systems)
    for system in systems:
        bands = system["breakdown"][kind]
        points = []
        for band, measured in bands.items():
            if measured["aer"] is not None:
                points.append(Point(band, measured["aer"], note=f"{measured['links']} links"))
        curves.append(Curve(names[system["system"]], points))
    return Curves(f"AER by {kind}", kind, "AER in %", curves, decimals=1)
