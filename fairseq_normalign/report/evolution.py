"""How representations evolve, as text and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairseq_normalign.layers.evolution import Evolution, Evolutions
from fairseq_normalign.results.columns import columns

NOTHING = "–"
LEGEND = """identity: share of a token's nearest neighbours that are the same token; left, right:
of its neighbours among the same token, the share with the same token before or after it;
position: how far these are apart in their sentences; information: between tokens and clusters of
states, in nats, at most {ceiling:.2f}."""
CHANGE = "change: PWCCA distance to the layer below, by frequency in the training data"
INFLUENCE = "influence: PWCCA distance that hiding one token makes for others, by its frequency"
BETWEEN = "PWCCA distance between models, layer by layer"


def as_text(evolutions: Evolutions) -> str:
    """Tables for each model, one of all pairs of models, and a legend."""
    tables = []
    for model in evolutions.models:
        tables.append(model_table(model, evolutions.random))
        if model.change:
            tables.append(group_table(CHANGE, model.change))
        if model.influence:
            tables.append(group_table(INFLUENCE, model.influence, decimals=4))
    if evolutions.between:
        tables.append(between_table(evolutions))
    tables.append(LEGEND.format(ceiling=evolutions.ceiling))
    return "\n\n".join(tables)


def model_table(model: Evolution, random: Mapping[str, float]) -> str:
    """What neighbours and clusters say of each layer, and what chance would."""
    names = ["identity", "left", "right", "position", "information", "shuffled"]
    rows = [["layer", *names]]
    of_chance = [f"{random[name]:.3f}" for name in ("identity", "left", "right")]
    rows.append(["random", *of_chance, f"{random['position']:.2f}", NOTHING, NOTHING])
    for layer in range(len(model.identity)):
        rows.append(
            [
                str(layer),
                f"{model.identity[layer]:.3f}",
                f"{model.left[layer]:.3f}",
                f"{model.right[layer]:.3f}",
                f"{model.position[layer]:.2f}",
                f"{model.information[layer]:.2f}",
                f"{model.shuffled_information[layer]:.2f}",
            ]
        )
    return "\n".join([f"{model.name}, {model.part}", *columns(rows)])


def group_table(title: str, by_group: Mapping[str, Sequence[float]], *, decimals: int = 3) -> str:
    """A row for each layer from 1, a column for each group of frequency."""
    rows = [["layer", *by_group]]
    for layer, values in enumerate(zip(*by_group.values(), strict=True), 1):
        rows.append([str(layer), *(f"{value:.{decimals}f}" for value in values)])
    return "\n".join([title, *columns(rows)])


def between_table(evolutions: Evolutions) -> str:
    """A row for each layer that both models have, a column for each pair of models."""
    layers = max(min(len(matrix), len(matrix[0])) for matrix in evolutions.between.values())
    rows = [["layer", *(f"{first} – {second}" for first, second in evolutions.between)]]
    for layer in range(layers):
        cells = [str(layer)]
        for matrix in evolutions.between.values():
            is_there = layer < min(len(matrix), len(matrix[0]))
            cells.append(f"{matrix[layer][layer]:.3f}" if is_there else NOTHING)
        rows.append(cells)
    return "\n".join([BETWEEN, *columns(rows)])


def as_json(evolutions: Evolutions, signature: Mapping[str, Any]) -> dict[str, Any]:
    """All that was measured; lists are by layer, from 0, those of change and influence from 1."""
    models = []
    for model in evolutions.models:
        contents = dict(vars(model))
        del contents["planes"]
        models.append(contents)
    between = []
    for (first, second), matrix in evolutions.between.items():
        between.append({"models": [first, second], "distances": matrix})
    return {
        "models": models,
        "random": evolutions.random,
        "information_ceiling": evolutions.ceiling,
        "between": between,
        "signature": dict(signature),
    }
