"""Results as aligned text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from fairseq_normalign.alignment.error_table import ErrorTable
from fairseq_normalign.alignment.soft import Evidence
from fairseq_normalign.files import whole_file
from fairseq_normalign.heads.names import Head, HeadCounts
from fairseq_normalign.report.columns import columns

STEPS = {"input": "align with input", "output": "align with output"}
LEGEND = (
    "AER in %, lower is better; * marks the best of a column, "
    "+ the layer that is chosen without gold."
)
NOTHING = "–"


def aer_table(table: ErrorTable) -> str:
    """AER of each layer (and head) by step and method (Kobayashi et al., 2020, Fig. 7).

    Methods of the whole model have a row of their own, called all.
    """
    steps = list(dict.fromkeys(evidence.step for evidence in table.scores))
    methods = list(dict.fromkeys(evidence.method for evidence in table.scores))
    places = list(dict.fromkeys((evidence.layer, evidence.head) for evidence in table.scores))
    width = max(len("100.0"), *map(len, methods))  # of all columns, whatever their method
    names = [f"{method:>{width}}  " for method in methods]
    rows = [["layer ", *names * len(steps)]]
    best = table.best()
    for layer, head in places:
        cells = [_place(layer, head)]
        for step in steps:
            for method in methods:
                cells.append(_cell(table, Evidence(method, layer, step, head), best))
        rows.append(cells)
    width_of_step = (width + 4) * len(methods) - 4
    titles = [f"    {STEPS[step]:<{width_of_step}}" for step in steps]
    better = ", ".join(f"{choice.step} for {method}" for method, choice in table.choices.items())
    first_line = (" " * 6 + "".join(titles)).rstrip()
    last_line = f"Step chosen without gold: {better}."
    return "\n".join([first_line, *columns(rows), LEGEND, last_line])


def _place(layer: int | None, head: int | None) -> str:
    if layer is None:
        return "all"
    return str(layer + 1) if head is None else f"{layer + 1}.{head + 1}"


def _cell(table: ErrorTable, evidence: Evidence, best: set[Evidence]) -> str:
    if evidence not in table.scores:
        return f"{NOTHING}  "
    marks = "*" if evidence in best else ""
    if table.chosen(evidence):
        marks += "+"
    return f"{100 * table.scores[evidence].aer:.1f}{marks:<2}"


def write_table(table: ErrorTable, path: str) -> None:
    """The table as JSON."""
    with whole_file(path) as file:
        json.dump(table.as_json(), file, indent=1, allow_nan=False)


def kept_heads(kept: Sequence[Head], counts: HeadCounts) -> str:
    """The heads of each attention that are left, by their numbers before."""
    left: dict[tuple[str, int], list[str]] = {name: [] for name in counts}
    for head in kept:
        left[head.kind, head.layer].append(str(head.head + 1))
    kinds = list(dict.fromkeys(kind for kind, _ in counts))
    layers = sorted({layer for _, layer in counts})
    width = max(7, *(len(" ".join(numbers)) for numbers in left.values())) + 2
    rows = [["attention", *(f"{f'layer {layer + 1}':<{width}}" for layer in layers)]]
    for kind in kinds:
        cells = [" ".join(left.get((kind, layer), [])) or NOTHING for layer in layers]
        rows.append([kind, *cells])
    kept_by_kind = Counter(head.kind for head in kept)
    numbers = "/".join(str(kept_by_kind[kind]) for kind in kinds)
    lines = columns(rows, left=range(len(layers) + 1))
    lines.append(f"{len(kept)} of {sum(counts.values())} heads left: {numbers}")
    return "\n".join(lines)
