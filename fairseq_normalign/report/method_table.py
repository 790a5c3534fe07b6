"""Soft methods side by side as text: a line for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from fairseq_normalign.alignment.aer import Counts
from fairseq_normalign.alignment.error_table import Costs, ErrorTable, best_of_methods
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.results.columns import columns
from fairseq_normalign.results.spread import spread

AER = "AER in %, P and R"
AER_IN = "AER in % with its bootstrap interval, P and R"
BEST = "Best by gold: the layer and step of lowest AER, which gold alone can tell."


def method_table(*tables: ErrorTable) -> str:
    """A line for each method: what is chosen without gold, its score, the best place, the cost.

    Of several models, as of several seeds, numbers are mean ± sample deviation, and intervals are
    left out.
    """
    rows = [_titles(tables)]
    for method in tables[0].choices:
        rows.append([method, *_chosen(method, tables), *_best(method, tables)])
        rows[-1] += _cost(method, tables)
    return "\n".join([*columns(rows, left=(0, 1)), *_legend(tables)])


def _titles(tables: Sequence[ErrorTable]) -> list[str]:
    titles = ["method", "chosen", "AER", *(["95%"] if _has_interval(tables) else []), "P", "R"]
    titles += ["best by gold", "AER"]
    return titles + (["× forward", "s/1,000", "MB"] if _has_costs(tables) else [])


def _has_interval(tables: Sequence[ErrorTable]) -> bool:
    return len(tables) == 1 and bool(tables[0].intervals)


def _has_costs(tables: Sequence[ErrorTable]) -> bool:
    return all(table.costs is not None for table in tables)


def _chosen(method: str, tables: Sequence[ErrorTable]) -> list[str]:
    """What each model chooses without gold, and how well that aligns."""
    choices = [table.choice(method) for table in tables]
    counts = [table.scores[choice] for table, choice in zip(tables, choices, strict=True)]
    cells = [_places(choices), _percent(counts, lambda of_model: of_model.aer)]
    if _has_interval(tables):
        low, high = tables[0].intervals[choices[0]]
        cells.append(f"{100 * low:.1f}–{100 * high:.1f}")
    cells.append(_percent(counts, lambda of_model: of_model.precision))
    cells.append(_percent(counts, lambda of_model: of_model.recall))
    return cells


def _percent(counts: Iterable[Counts], ratio: Callable[[Counts], float]) -> str:
    return f"{spread(100 * ratio(of_model) for of_model in counts):.1f}"


def _places(choices: Sequence[Evidence]) -> str:
    """``1 input``; of several models also how many choose it."""
    places = Counter(map(place_name, choices))
    if len(choices) == 1:
        return place_name(choices[0])
    return ", ".join(f"{place} {count}/{len(choices)}" for place, count in places.items())


def place_name(evidence: Evidence) -> str:
    """A layer, counted from 1, and a step."""
    layer = "all" if evidence.layer is None else evidence.layer + 1
    return f"{layer} {evidence.step}"


def _best(method: str, tables: Sequence[ErrorTable]) -> list[str]:
    """The layer and step of lowest AER, or of lowest mean."""
    aers = {}
    for evidence in tables[0].scores:
        aers[evidence] = spread(100 * table.aers[evidence] for table in tables)
    best = best_of_methods({evidence: aer.mean for evidence, aer in aers.items()})[method]
    return [place_name(best), f"{aers[best]:.1f}"]


def _cost(method: str, tables: Sequence[ErrorTable]) -> list[str]:
    """How long a method takes and how much memory, on average over models."""
    costs = [table.costs for table in tables if table.costs is not None]
    if len(costs) < len(tables):
        return []
    forwards = spread(of_model.forwards(method) for of_model in costs).mean
    seconds = spread(of_model.methods[method].seconds for of_model in costs).mean
    return [f"{forwards:.1f}", f"{seconds:.1f}", _megabytes(costs, method)]


def _megabytes(costs: Sequence[Costs], method: str | None) -> str:
    """The most memory that a model takes for a method, or for a forward pass."""
    of_models = [
        of_model.forward if method is None else of_model.methods[method] for of_model in costs
    ]
    known = [cost.megabytes for cost in of_models if cost.megabytes is not None]
    return f"{max(known):.0f}" if known else "–"


def _legend(tables: Sequence[ErrorTable]) -> list[str]:
    scores = AER_IN if _has_interval(tables) else AER
    lines = [f"{scores}, of the layer and step that are chosen without gold.", BEST]
    costs = [table.costs for table in tables if table.costs is not None]
    if len(costs) == len(tables):
        lines += _cost_legend(costs)
    if len(tables) > 1:
        lines.append(f"Mean ± sample deviation of {len(tables)} models.")
    return lines


def _cost_legend(costs: Sequence[Costs]) -> list[str]:
    seconds = spread(of_model.forward.seconds for of_model in costs)
    return [
        f"Cost of one method by itself at one layer, on {costs[0].pairs} pairs with --max-tokens "
        f"{costs[0].batch_tokens}: time in forward",
        f"passes, seconds for 1,000 pairs, memory at most above the model. A plain forward pass: "
        f"{seconds.mean:.1f} s, {_megabytes(costs, None)} MB.",
    ]
