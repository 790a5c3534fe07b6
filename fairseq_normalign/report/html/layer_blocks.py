"""What the states of layers hold, as curves: evolution and probing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairseq_normalign.results.blocks import Block, Curve, Curves, Note, Point, Row, Table

MEASURES = {
    "identity": "share of nearest neighbours that are the same token",
    "left": "share of these with the same token before them",
    "right": "share of these with the same token after them",
    "position": "how far neighbours are apart, in tokens",
}
FREQUENCIES = "Lines are groups of tokens by their frequency in the training data."


def evolution_blocks(contents: Mapping[str, Any]) -> list[Block]:
    """What ``normalign evolution -o`` wrote."""
    models = contents["models"]
    chance = contents["random"]
    curves: list[Block] = []
    for name, meaning in MEASURES.items():
        of_models = [_by_layer(model["name"], model[name]) for model in models]
        of_models.append(_level("by chance", chance[name], models[0][name]))
        curves.append(Curves(name, "layer", meaning, of_models, zero=True))
    curves.append(_information(contents))
    blocks: list[Block] = [Row(curves)]
    by_frequency: list[Block] = []
    for model in models:
        for name in ("change", "influence"):
            if model.get(name):
                by_frequency.append(_groups(f"{model['name']}: {name}", model[name]))
    if by_frequency:
        blocks += [Note(FREQUENCIES), Row(by_frequency)]
    if contents["between"]:
        blocks.append(_between(contents["between"]))
    return blocks


def _by_layer(name: str, values: Sequence[float], *, first: int = 0, **look: bool) -> Curve:
    points = [Point(first + layer, value) for layer, value in enumerate(values)]
    return Curve(name, points, **look)


def _level(name: str, value: float, values: Sequence[float]) -> Curve:
    """The same number at every layer."""
    return _by_layer(name, [value] * len(values), dashed=True)


def _information(contents: Mapping[str, Any]) -> Curves:
    models = contents["models"]
    curves = []
    for model in models:
        curves.append(_by_layer(model["name"], model["information"]))
        shuffled = _by_layer(
            f"{model['name']}, shuffled", model["shuffled_information"], dashed=True
        )
        curves.append(shuffled)
    ceiling = contents["information_ceiling"]
    curves.append(_level("ceiling", ceiling, models[0]["information"]))
    meaning = "information of tokens in clusters, in nats"
    return Curves("information", "layer", meaning, curves, zero=True)


def _groups(title: str, by_group: Mapping[str, Sequence[float]]) -> Curves:
    curves = []
    for name, values in by_group.items():
        curves.append(_by_layer(name, values, first=1, dashed=name in ("all", "any", "shuffled")))
    return Curves(title, "layer", "PWCCA distance", curves, decimals=4, zero=True)


def _between(pairs: Sequence[Mapping[str, Any]]) -> Block:
    """Distances of the same layer in two models."""
    curves = []
    for pair in pairs:
        distances = pair["distances"]
        depth = min(len(distances), len(distances[0]))
        same = [distances[layer][layer] for layer in range(depth)]
        curves.append(_by_layer(" – ".join(pair["models"]), same))
    return Curves("Between models", "layer", "PWCCA distance", curves, decimals=3, zero=True)


def probing_blocks(contents: Mapping[str, Any]) -> list[Block]:
    """What ``normalign probe -o`` wrote."""
    curves, rows = [], []
    for model in contents["models"]:
        accuracy = [100 * share for share in model["accuracy"]]
        shuffled = [100 * share for share in model["shuffled"]]
        curves.append(_by_layer(model["name"], accuracy))
        curves.append(_by_layer(f"{model['name']}, shuffled tags", shuffled, dashed=True))
        rows.append(
            [model["name"], model["train_words"], model["test_words"], 100 * model["majority"]]
        )
    title = "Parts of speech that a linear classifier reads from the states"
    columns = ["model", "words to train on", "words to test on", "most frequent tag in %"]
    return [
        Curves(title, "layer", "accuracy in %", curves, decimals=1, zero=True),
        Table(columns, rows, decimals=1),
    ]
