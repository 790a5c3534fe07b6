"""The heads of several models of one architecture, as of several seeds, as text and as JSON.

Heads of different models do not correspond (see ``heads.layer_summary``): a table has a row for the
lowest, the mean and the highest head of each layer. Rank correlations between scores are taken in
each model by itself, and then have a mean and a deviation, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from fairseq_normalign.heads.layer_summary import SUMMARIES, Layer, summaries_by_layer
from fairseq_normalign.heads.profile import Profile
from fairseq_normalign.names import KINDS, by_kind
from fairseq_normalign.report.heads import (
    NOTHING,
    PERCENT,
    all_correlations,
    low_scores,
    table,
)
from fairseq_normalign.results.columns import columns
from fairseq_normalign.results.spread import Spread, spread

Summaries = dict[str, dict[Layer, dict[str, Spread]]]  # by score, layer and name of the summary
Correlations = dict[str, dict[tuple[str, str], Spread]]  # by kind, or all, and pair of scores


def layer_spreads(profiles: Sequence[Profile]) -> Summaries:
    """Mean and deviation over models of what the heads of a layer have in common."""
    spreads: Summaries = {}
    for name in profiles[0].scores:
        of_models = [summaries_by_layer(profile.scores[name]) for profile in profiles]
        spreads[name] = {}
        for layer in of_models[0]:
            spreads[name][layer] = {}
            for summary in SUMMARIES:
                values = [of_model[layer][summary] for of_model in of_models]
                spreads[name][layer][summary] = spread(values)
    return spreads


def correlation_spreads(profiles: Sequence[Profile]) -> Correlations:
    """Mean and deviation over models of each ρ that is defined in all of them."""
    of_models = [all_correlations(profile) for profile in profiles]
    spreads: Correlations = {}
    for name, pairs in of_models[0].items():
        spreads[name] = {}
        for pair in pairs:
            rhos = [correlations[name][pair].rho for correlations in of_models]
            defined = [rho for rho in rhos if rho is not None]
            if len(defined) == len(profiles):
                spreads[name][pair] = spread(defined)
    return spreads


def as_text(profiles: Sequence[Profile]) -> str:
    """A table for each kind of attention, and the rank correlations."""
    summaries = layer_spreads(profiles)
    parts = [layers_table(summaries, kind) for kind in by_kind(profiles[0].heads)]
    parts.append(f"rank correlations (Spearman) between scores{low_scores(profiles[0])}")
    for name, spreads in correlation_spreads(profiles).items():
        parts.append(correlations_table(name, spreads))
    parts.append(f"Mean ± sample deviation of {len(profiles)} models.")
    return "\n\n".join(parts)


def layers_table(summaries: Summaries, kind: str) -> str:
    """A row for the lowest, the mean and the highest head of each layer of one kind."""
    layers = sorted({layer for layer in chain(*summaries.values()) if layer[0] == kind})
    names = [name for name, by_layer in summaries.items() if set(layers) & set(by_layer)]
    rows = [["layer", "heads", *names]]
    for layer in layers:
        for summary in SUMMARIES:
            cells = [f"{kind}.{layer[1] + 1}", summary]
            cells += [_cell(name, summaries[name].get(layer, {}).get(summary)) for name in names]
            rows.append(cells)
    return "\n".join([KINDS[kind].title, *columns(rows, left=(0, 1))])


def _cell(name: str, value: Spread | None) -> str:
    if value is None:
        return NOTHING
    if name not in PERCENT:
        return f"{value:.3f}"
    deviation = None if value.deviation is None else 100 * value.deviation
    return f"{Spread(100 * value.mean, deviation):.1f}"


def correlations_table(name: str, spreads: Mapping[tuple[str, str], Spread]) -> str:
    """Rank correlations as a triangle."""
    names = list(dict.fromkeys(chain.from_iterable(spreads)))
    if not names:
        return f"{name}: no rank correlation is defined in all models"
    rows = [["", *names[:-1], ""]]
    for place, score in enumerate(names[1:], 1):
        cells = [_rho(spreads.get((other, score))) for other in names[:place]]
        rows.append([score, *cells, *[""] * (len(names) - place)])
    return f"{name}\n{table(rows)}"


def _rho(value: Spread | None) -> str:
    return NOTHING if value is None else f"{value:+.2f}"


def as_json(profiles: Sequence[Profile], models: Mapping[str, dict]) -> dict:
    """Every model by itself, and mean and deviation of all of them.

    Args:
        models: what ``report.heads.as_json`` says of each checkpoint.
    """
    layers = []
    for name, by_layer in layer_spreads(profiles).items():
        for (kind, layer), summaries in by_layer.items():
            values = {summary: value._asdict() for summary, value in summaries.items()}
            layers.append({"score": name, "attention": kind, "layer": layer + 1, **values})
    correlations = {}
    for name, spreads in correlation_spreads(profiles).items():
        correlations[name] = [
            {"scores": list(pair), **value._asdict()} for pair, value in spreads.items()
        ]
    return {"models": dict(models), "layers": layers, "correlations": correlations}
