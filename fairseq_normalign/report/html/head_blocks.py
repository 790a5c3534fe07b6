"""Scores and roles of heads as maps of layers and heads, and how scores go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from fairseq_normalign.heads.criteria import FUNCTIONS
from fairseq_normalign.names import KINDS, Head, by_kind, parse_head
from fairseq_normalign.results.blocks import (
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
LOW = ("AER", "entropy")  # the lower, the better, as analysis.head_scores has it
ABOUT = {
    "relevance": "share of its layer's relevance by layer-wise relevance propagation",
    "confidence": "mean of the largest attention weight",
    "entropy": "mean entropy of the attention weights, in nats",
    "norm-confidence": "confidence of the shares of ‖αf(x)‖ instead of the weights α",
    "norm": "sum of ‖αf(x)‖ over the keys, mean over queries",
    "importance": "how much the loss depends on the head, mean of |∂loss/∂ξ|",
    "ablation": "growth of the loss per target token with the head off",
    "AER": "alignment error rate of the head alone",
    "UAS": "attachments of a dependency tree that the head finds",
    "BLEU": "points of BLEU that are lost with the head off",
    "position share": "share of its maxima at one distance, the most frequent one",
    "rare-token share": "share of its maxima on the rarest token of the sentence",
}
POSITION = "position share"
RARE = "rare-token share"
THRESHOLDS = {"positional": POSITION, "rare": RARE}
LETTERS = {name: name[0].upper() for name in FUNCTIONS}
LEGEND = ", ".join(f"{letter} {name}" for name, letter in LETTERS.items())
Entry = Mapping[str, Any]  # what is known of one head


def blocks_of(contents: Mapping[str, Any]) -> list[Block]:
    """What ``normalign heads -o`` wrote, of one model or of several."""
    if "models" not in contents:
        return model_blocks(contents)
    groups = {name: model_blocks(of_model) for name, of_model in contents["models"].items()}
    blocks = chosen_from("model", groups)
    of_models = f"mean ± deviation of {len(groups)} models"
    rows = []
    for layer in contents["layers"]:
        row = [layer["score"], layer["attention"], layer["layer"]]
        summaries = [layer[name] for name in ("lowest", "mean", "highest") if name in layer]
        row += [_spread(layer["score"], summary) for summary in summaries]
        rows.append(row)
    columns = ["score", "attention", "layer", "lowest head", "mean", "highest head"]
    if rows and len(rows[0]) == len(columns):
        blocks.append(Table(columns, rows, f"Heads of each layer, {of_models}"))
    blocks += _mean_correlations(contents.get("correlations") or {}, of_models)
    return blocks


def _spread(name: str, value: Mapping[str, Any]) -> str:
    """Mean and deviation of a score, in the unit and with the decimals of its map."""
    factor, decimals, unit = (100, 1, " %") if _is_percent(name) else (1, 3, "")
    told = f"{factor * value['mean']:.{decimals}f}"
    deviation = value.get("deviation")
    if deviation is not None:
        told += f" ± {factor * deviation:.{decimals}f}"
    return told + unit


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
    blocks += _missed(contents["signature"], entries)
    if contents.get("relations"):
        blocks.append(_relations(contents["relations"], entries))
    blocks += _correlations(contents.get("correlations") or {})
    return blocks


def _missed(signature: Mapping[str, Any], entries: Mapping[Head, Entry]) -> list[Block]:
    """The roles that no head has, and how much the best one lacks."""
    notes: list[Block] = []
    for role, name in THRESHOLDS.items():
        shares = {}
        for head, entry in entries.items():
            share = _value(name, entry)
            if share is not None:
                shares[str(head)] = share
        if role not in signature or not shares:
            continue
        if any(role in entry["functions"] for entry in entries.values()):
            continue
        best = max(shares, key=lambda head: shares[head])
        notes.append(
            Note(
                f"No head is {role}: that needs {100 * float(signature[role]):.0f} % of the "
                f"maxima; {best} has {shares[best]:.1f} %."
            )
        )
    return notes


def _maps(heads: Sequence[Head], entries: Mapping[Head, Entry]) -> list[Block]:
    """A map for each score that heads of this kind have; one of roles alone if they have none."""
    names: dict[str, None] = {}
    for head in heads:
        names.update(dict.fromkeys(entries[head]["scores"]))
    for name in THRESHOLDS.values():
        if any(_value(name, entries[head]) is not None for head in heads):
            names[name] = None
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
        notes.append([_notes(name, entry) for entry in of_layer])
    return Grid(
        name,
        "layer",
        "head",
        [str(layer + 1) for layer in layers],
        [str(head + 1) for head in columns],
        values,
        unit="%" if _is_percent(name) else "",
        decimals=1 if _is_percent(name) else 3,
        marks=marks,
        notes=notes,
        low=name in LOW,
        absent=_absent(
            name, [entries.get(Head(kind, *place)) for place in product(layers, columns)]
        ),
        about=ABOUT.get(name, ""),
    )


def _is_percent(name: str) -> bool:
    return name in PERCENT or name in THRESHOLDS.values()


def _absent(name: str, entries: Sequence[Entry | None]) -> str:
    """What cells without a value have in common."""
    without = [entry for entry in entries if _value(name, entry) is None]
    return "no value" if any(entry is not None for entry in without) else "removed"


def _value(name: str, entry: Entry | None) -> float | None:
    if entry is None:
        return None
    if name == POSITION:
        value = (entry.get("position") or {}).get("share")
    elif name == RARE:
        value = (entry.get("rare") or {}).get("rarest", {}).get("tokens")
    else:
        value = entry["scores"].get(name)
    if value is None:
        return None
    return 100 * float(value) if _is_percent(name) else float(value)


def _letters(entry: Entry | None) -> str:
    return "" if entry is None else "".join(LETTERS.get(name, "") for name in entry["functions"])


def _notes(name: str, entry: Entry | None) -> str:
    """Roles of a head; how far off the position is that most of its maxima have."""
    if entry is None:
        return "removed"
    notes = []
    if name == POSITION and _value(name, entry) is not None:
        notes.append(f"at {_signed(int(entry['position']['offset']), 0)}")
    roles = [str(role) for role in entry["roles"]]
    if roles:
        notes.append(f"roles: {', '.join(roles)}")
    return "; ".join(notes)


def _signed(value: float, decimals: int) -> str:
    """With its sign, as the page shows numbers."""
    return f"{value:+.{decimals}f}".replace("-", "−")


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


def _correlations(correlations: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Block]:
    """Spearman's ρ between scores, for each kind of attention."""
    tables = {}
    for name, pairs in correlations.items():
        rows = []
        for pair in pairs:
            if pair["rho"] is None:
                continue
            ends = pair.get("interval")
            interval = " to ".join(_signed(end, 2) for end in ends) if ends else None
            rows.append([*pair["scores"], pair["rho"], interval])
        columns = ["score", "and score", "ρ", "95 % interval"]
        tables[name] = without_empty(columns, rows, "Rank correlations (Spearman)")
    return _over_heads(tables)


def _mean_correlations(
    correlations: Mapping[str, Sequence[Mapping[str, Any]]], of_models: str
) -> list[Block]:
    """The same of several models: each ρ that is defined in all of them."""
    tables = {}
    for name, pairs in correlations.items():
        rows = [[*pair["scores"], pair["mean"], pair.get("deviation")] for pair in pairs]
        columns = ["score", "and score", "mean ρ", "deviation"]
        tables[name] = without_empty(columns, rows, f"Rank correlations (Spearman), {of_models}")
    return _over_heads(tables)


def _over_heads(tables: Mapping[str, Table]) -> list[Block]:
    """A choice between those tables that have rows."""
    options = [Option(name, [table]) for name, table in tables.items() if table.rows]
    return [Choice("over the heads of", options)] if options else []
