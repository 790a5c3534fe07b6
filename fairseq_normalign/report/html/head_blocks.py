"""Scores and roles of heads as maps of layers and heads, and how scores go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairseq_normalign.heads.criteria import FUNCTIONS
from fairseq_normalign.heads.names import KINDS, Head, by_kind, parse_head
from fairseq_normalign.report.html.blocks import (
    Block,
    Choice,
    Grid,
    Note,
    Option,
    Row,
    Table,
    chosen_from,
    up_to,
    without_empty,
)

PERCENT = ("AER", "UAS")  # as in report.heads, which would import PyTorch
LETTERS = {name: name[0].upper() for name in FUNCTIONS}
LEGEND = ", ".join(f"{letter} {name}" for name, letter in LETTERS.items())
Entry = Mapping[str, Any]  # what is known of one head


def blocks_of(contents: Mapping[str, Any]) -> list[Block]:
    """What ``normalign heads -o`` wrote, of one model or of several."""
    if "models" not in contents:
        return model_blocks(contents)
    groups = {name: model_blocks(of_model) for name, of_model in contents["models"].items()}
    blocks = chosen_from("model", groups)
    rows = []
    for layer in contents["layers"]:
        row = [layer["score"], layer["attention"], layer["layer"]]
        row += [_spread(layer[name]) for name in ("lowest", "mean", "highest") if name in layer]
        rows.append(row)
    columns = ["score", "attention", "layer", "lowest head", "mean", "highest head"]
    title = f"Heads of each layer, mean ± deviation of {len(groups)} models"
    if rows and len(rows[0]) == len(columns):
        blocks.append(Table(columns, rows, title))
    return blocks


def _spread(value: Mapping[str, float | None]) -> str:
    deviation = value.get("deviation")
    mean = value["mean"]
    return f"{mean:.3f}" if deviation is None else f"{mean:.3f} ± {deviation:.3f}"


def model_blocks(contents: Mapping[str, Any]) -> list[Block]:
    """Maps for each kind of attention, relations, rank correlations."""
    entries = {parse_head(entry["head"]): entry for entry in contents["heads"]}
    blocks: list[Block] = []
    if any(entry["functions"] for entry in entries.values()):
        blocks.append(Note(f"Marks are roles: {LEGEND}."))
    kinds = {}
    for kind, heads in by_kind(entries).items():
        kinds[KINDS[kind].title] = [Row(_maps(heads, entries))]
    blocks += chosen_from("attention", kinds)
    if contents.get("relations"):
        blocks.append(_relations(contents["relations"], entries))
    if contents.get("correlations"):
        blocks.append(_correlations(contents["correlations"]))
    return blocks


def _maps(heads: Sequence[Head], entries: Mapping[Head, Entry]) -> list[Block]:
    """A map for each score that heads of this kind have; one of roles alone if they have none."""
    names: dict[str, None] = {}
    for head in heads:
        names.update(dict.fromkeys(entries[head]["scores"]))
    return [_map(name, heads, entries) for name in names or ["no scores"]]


def _map(name: str, heads: Sequence[Head], entries: Mapping[Head, Entry]) -> Grid:
    layers = up_to(max(head.layer for head in heads))
    columns = up_to(max(head.head for head in heads))
    kind = heads[0].kind
    values: list[list[float | None]] = []
    marks, notes = [], []
    for layer in layers:
        of_layer = [entries.get(Head(kind, layer, head)) for head in columns]
        values.append([_value(name, entry) for entry in of_layer])
        marks.append([_letters(entry) for entry in of_layer])
        notes.append([_roles(entry) for entry in of_layer])
    return Grid(
        name,
        "layer",
        "head",
        [str(layer + 1) for layer in layers],
        [str(head + 1) for head in columns],
        values,
        unit="%" if name in PERCENT else "",
        decimals=1 if name in PERCENT else 3,
        marks=marks,
        notes=notes,
    )


def _value(name: str, entry: Entry | None) -> float | None:
    if entry is None or name not in entry["scores"]:
        return None
    value = float(entry["scores"][name])
    return 100 * value if name in PERCENT else value


def _letters(entry: Entry | None) -> str:
    return "" if entry is None else "".join(LETTERS.get(name, "") for name in entry["functions"])


def _roles(entry: Entry | None) -> str:
    if entry is None:
        return "removed"
    roles = [str(role) for role in entry["roles"]]
    return f"roles: {', '.join(roles)}" if roles else ""


def _relations(relations: Mapping[str, Any], entries: Mapping[Head, Entry]) -> Table:
    """Each syntactic relation: cases, baseline and the head that finds it best."""
    rows = []
    for name, relation in relations.items():
        accuracy = {}
        for head, entry in entries.items():
            if name in entry.get("relations", {}):
                accuracy[str(head)] = entry["relations"][name]
        best = max(accuracy, key=lambda head: accuracy[head]) if accuracy else ""
        baseline = relation["baseline"]
        row = [name, relation["cases"], None if baseline is None else 100 * baseline]
        row += [best, 100 * accuracy[best] if best else None]
        rows.append(row)
    columns = ["relation", "cases", "baseline in %", "best head", "accuracy in %"]
    return Table(columns, rows, "Syntactic relations", decimals=1)


def _correlations(correlations: Mapping[str, Sequence[Mapping[str, Any]]]) -> Choice:
    """Spearman's ρ between scores, for each kind of attention."""
    options = []
    for name, pairs in correlations.items():
        rows = []
        for pair in pairs:
            if pair.get("rho", pair.get("mean")) is None:
                continue
            low, high = pair.get("interval") or (None, None)
            interval = None if low is None else f"{low:+.2f} to {high:+.2f}"
            rows.append([*pair["scores"], pair.get("rho", pair.get("mean")), interval])
        columns = ["score", "and score", "ρ", "95 % interval"]
        table = without_empty(columns, rows, "Rank correlations (Spearman)")
        options.append(Option(name, [table]))
    return Choice("over the heads of", options)
