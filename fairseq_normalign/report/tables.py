"""Results as aligned text."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from fairseq_normalign.alignment.error_table import ErrorTable, best_of_columns
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.files import whole_file
from fairseq_normalign.results.columns import GAP, columns
from fairseq_normalign.results.spread import Spread, spread

STEPS = {"input": "align with input", "output": "align with output"}
INDENT = 4  # before the title of a step
TITLE = INDENT + max(map(len, STEPS.values()))
LEGEND = "AER in %, lower is better; * marks the best of a column, "
ONE_MODEL = "+ the layer that is chosen without gold."
SEVERAL_MODELS = "+ how many models choose the layer without gold."
NOTHING = "–"


def aer_table(*tables: ErrorTable) -> str:
    """AER of each layer (and head) by step and method (Kobayashi et al., 2020, Fig. 7).

    Methods of the whole model have a row of their own, called all; the last row is the mean over
    layers. Of several models, as of several seeds, cells are mean ± sample deviation.
    """
    aers = {evidence: _spread_of(evidence, tables) for evidence in tables[0].scores}
    steps = list(dict.fromkeys(evidence.step for evidence in aers))
    methods = list(dict.fromkeys(evidence.method for evidence in aers))
    steps_and_methods = list(product(steps, methods))
    marks = _marks(aers, tables)
    room = max(2, *map(len, marks.values()))  # for marks, behind the numbers
    width = _width(methods, aers.values(), room)
    names = [f"{method:>{width}}{' ' * room}" for method in methods]
    rows = [["layer ", *names * len(steps)]]
    rows += _layer_rows(aers, marks, steps_and_methods, room)
    rows += _mean_rows(tables, steps_and_methods, room)
    width_of_step = (width + room + len(GAP)) * len(methods)
    titles = [f"{' ' * INDENT}{STEPS[step]}".ljust(width_of_step) for step in steps]
    first_line = (" " * len(rows[0][0]) + "".join(titles)).rstrip()
    return "\n".join([first_line, *columns(rows), *_legend(tables)])


def _width(methods: Sequence[str], aers: Iterable[Spread], room: int) -> int:
    """Of the numbers of all columns, such that the titles of the steps fit above their columns."""
    for_titles = math.ceil(TITLE / len(methods)) - room - len(GAP)
    numbers = [f"{aer:.1f}" for aer in aers]
    return max(for_titles, len("100.0"), *map(len, methods), *map(len, numbers))


def _layer_rows(
    aers: Mapping[Evidence, Spread],
    marks: Mapping[Evidence, str],
    steps_and_methods: Sequence[tuple[str, str]],
    room: int,
) -> list[list[str]]:
    """A row for each layer, and for each head and the whole model if they are there."""
    rows = []
    for layer, head in dict.fromkeys((evidence.layer, evidence.head) for evidence in aers):
        cells = [_place(layer, head)]
        for step, method in steps_and_methods:
            evidence = Evidence(method, layer, step, head)
            cells.append(_cell(aers.get(evidence), marks.get(evidence, ""), room))
        rows.append(cells)
    return rows


def _legend(tables: Sequence[ErrorTable]) -> list[str]:
    if len(tables) == 1:
        return [LEGEND + ONE_MODEL, _step_line(tables)]
    several = f"Mean ± sample deviation of {len(tables)} models."
    return [LEGEND + SEVERAL_MODELS, _step_line(tables), several]


def _spread_of(evidence: Evidence, tables: Sequence[ErrorTable]) -> Spread:
    return spread(100 * table.aers[evidence] for table in tables)


def _marks(aers: Mapping[Evidence, Spread], tables: Sequence[ErrorTable]) -> dict[Evidence, str]:
    """``*`` for the best of a column, ``+`` for what is chosen without gold: ``+4/5`` of models."""
    best = best_of_columns({evidence: aer.mean for evidence, aer in aers.items()})
    marks = {}
    for evidence in aers:
        choosing = sum(table.chosen(evidence) for table in tables)
        mark = "*" if evidence in best else ""
        if choosing:
            mark += "+" if len(tables) == 1 else f"+{choosing}/{len(tables)}"
        marks[evidence] = mark
    return marks


def _place(layer: int | None, head: int | None) -> str:
    if layer is None:
        return "all"
    return str(layer + 1) if head is None else f"{layer + 1}.{head + 1}"


def _cell(aer: Spread | None, mark: str, room: int) -> str:
    number = NOTHING if aer is None else f"{aer:.1f}"
    return f"{number}{mark:<{room}}"


def _mean_rows(
    tables: Sequence[ErrorTable], steps_and_methods: Sequence[tuple[str, str]], room: int
) -> list[list[str]]:
    """The mean over layers as a row, if there are layers."""
    means = [table.layer_means() for table in tables]
    if not means[0]:
        return []
    cells = ["mean"]
    for step, method in steps_and_methods:
        mean = None
        if (method, step) in means[0]:
            mean = spread(100 * of_model[method, step] for of_model in means)
        cells.append(_cell(mean, "", room))
    return [cells]


def _step_line(tables: Sequence[ErrorTable]) -> str:
    """The step that is chosen for each method, and by how many models."""
    chosen = []
    for method in tables[0].choices:
        steps = Counter(table.choices[method].step for table in tables)
        shown = [f"{step} {count}/{len(tables)}" for step, count in steps.items()]
        if len(tables) == 1:
            shown = list(steps)
        chosen.append(f"{' and '.join(shown)} for {method}")
    return f"Step chosen without gold: {', '.join(chosen)}."


def write_tables(
    tables: Mapping[str, ErrorTable], signature: Mapping[str, object], path: str
) -> None:
    """The tables as JSON: the signature, the rows of each checkpoint, and the mean of several."""
    models = {name: table.as_json() for name, table in tables.items()}
    contents: dict[str, Any] = {"signature": dict(signature), "models": models}
    if len(tables) > 1:
        contents["mean"] = _means_as_json(list(tables.values()))
    with whole_file(path) as file:
        json.dump(contents, file, indent=1, ensure_ascii=False, allow_nan=False)


def _means_as_json(tables: Sequence[ErrorTable]) -> list[dict[str, Any]]:
    """For each row of the models' tables mean and deviation of AER."""
    rows = []
    for of_models in zip(*(table.as_json() for table in tables), strict=True):
        row = {name: of_models[0][name] for name in ("method", "layer", "head", "step")}
        aers = [of_model["aer"] for of_model in of_models]
        undefined = None in aers
        row["aer"], row["deviation"] = (None, None) if undefined else spread(aers)
        for name in ("chosen_without_gold", "better_step_without_gold"):
            if name in of_models[0]:
                row[name] = sum(of_model[name] for of_model in of_models)
        rows.append(row)
    return rows
