"""How representations evolve from layer to layer (Voita, Sennrich and Titov, EMNLP 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairseq_normalign.html_table import html_table, number_text
from fairseq_normalign.layers.cca import View, distance, shuffled, view_of
from fairseq_normalign.layers.clustering import kmeans
from fairseq_normalign.layers.evolution_plan import ALL, EvolutionOptions, Plan, plan_of
from fairseq_normalign.layers.information import mutual_information, shuffled_information
from fairseq_normalign.layers.neighbours import (
    mean_distance,
    nearest,
    random_distance,
    random_share,
    share_alike,
)
from fairseq_normalign.layers.projection import principal_plane
from fairseq_normalign.layers.state_pass import Progress, kept_states, states_with_and_without
from fairseq_normalign.layers.token_table import ReadText

SHUFFLED = "shuffled"
BY_LAYER = ("identity", "left", "right", "position", "information")
Matrix = list[list[float]]


@dataclass
class Evolution:
    """What was measured of one model; a number for each layer from 0, unless it says otherwise.

    Attributes:
        identity: share of nearest neighbours that are the same token.
        left: of neighbours among the same token, those with the same token before it.
        right: those with the same token after it.
        position: |pos − pos'| to neighbours among the same token.
        information: between tokens and clusters, in nats, and ``shuffled_information`` beside it.
        change: PWCCA distance to the layer below, from layer 1, by group; that of shuffled tokens.
        influence: PWCCA distance that hiding a token makes, from layer 1, by its group.
        layers: PWCCA distances between all layers.
        planes: states of words by their first two principal components, and their variance.
    """

    name: str
    part: str
    identity: list[float] = field(default_factory=list)
    left: list[float] = field(default_factory=list)
    right: list[float] = field(default_factory=list)
    position: list[float] = field(default_factory=list)
    information: list[float] = field(default_factory=list)
    shuffled_information: list[float] = field(default_factory=list)
    change: dict[str, list[float]] = field(default_factory=dict)
    influence: dict[str, list[float]] = field(default_factory=dict)
    layers: Matrix = field(default_factory=list)
    planes: list[tuple[np.ndarray, float]] = field(default_factory=list)

    def _repr_html_(self) -> str:
        """What a notebook shows: a row for each layer, a column for what neighbours share."""
        rows = []
        for layer in range(len(self.identity)):
            numbers = [getattr(self, name)[layer] for name in BY_LAYER]
            rows.append([str(layer), *(number_text(number, ".3f") for number in numbers)])
        return html_table(["layer", *BY_LAYER], rows, caption=f"{self.name}, {self.part}")


@dataclass
class Evolutions:
    """What was measured of some models of one text.

    Attributes:
        random: what identity, left, right and position are of neighbours drawn at random.
        ceiling: of information: ln V, all that there is to know of V types; ln K of fewer clusters.
        between: PWCCA distances between the layers of two models.
        pictured: the word of each point of the planes.
    """

    models: list[Evolution]
    random: dict[str, float]
    ceiling: float
    between: dict[tuple[str, str], Matrix]
    pictured: list[str]
    signature: dict[str, Any]

    def _repr_html_(self) -> str:
        """What a notebook shows: a table for each model."""
        return "\n".join(model._repr_html_() for model in self.models)


def evolution(
    texts: Sequence[ReadText], options: EvolutionOptions | None = None, **changes: Any
) -> Evolutions:
    """How the representations of some models of one text evolve.

    Args:
        texts: the models, each with the text as it reads it.
        options: see :class:`EvolutionOptions`; or name them one by one.
    """
    options = replace(options or EvolutionOptions(), **changes)
    return measured(texts, plan_of(texts, options), options)


def measured(
    texts: Sequence[ReadText],
    plan: Plan,
    options: EvolutionOptions,
    progress: Progress = lambda sentences: None,
) -> Evolutions:
    """What the plan says, of each model and between them."""
    models = []
    views = {}
    for text in texts:
        evolution, views[text.name] = _measure(text, plan, options, progress)
        models.append(evolution)
    between = {}
    for first, second in combinations(texts, 2):
        matrix = _distances(views[first.name], views[second.name])
        if matrix:
            between[first.name, second.name] = matrix
    pictured = []
    for word, occurrences in plan.words.items():
        pictured += [word] * len(occurrences)
    types = len(np.unique(plan.tokens.types[plan.sample]))
    return Evolutions(
        models,
        _random(plan),
        float(np.log(min(types, plan.clusters))),
        between,
        pictured,
        _signature(plan, options, types),
    )


def _signature(plan: Plan, options: EvolutionOptions, types: int) -> dict[str, Any]:
    signature: dict[str, Any] = {
        "types": types,
        "occurrences": options.occurrences,
        "neighbours": f"{options.neighbours}-cosine",
        "clusters": plan.clusters,
    }
    if plan.views:
        signature["tokens"] = len(plan.views[ALL])
    if len(plan.views) > 1:
        own = options.counts is None
        signature["frequencies"] = "dictionary" if own else Path(options.counts_name).name
    if plan.hidden:
        signature["influence-on"] = "later" if plan.causal else "others"
    return {**signature, "seed": options.seed}


def _random(plan: Plan) -> dict[str, float]:
    """What neighbours drawn at random would give."""
    tokens, sample = plan.tokens, plan.sample
    sentences, types = tokens.sentences[sample], tokens.types[sample]
    return {
        "identity": random_share(sentences, np.zeros(len(sample)), types),
        "left": random_share(sentences, types, tokens.left[sample]),
        "right": random_share(sentences, types, tokens.right[sample]),
        "position": random_distance(sentences, types, tokens.positions[sample]),
    }


def _measure(
    text: ReadText, plan: Plan, options: EvolutionOptions, progress: Progress
) -> tuple[Evolution, list[View]]:
    """What is to be known of one model, and its views of all tokens by layer."""
    evolution = Evolution(text.name, text.states.part)
    kept = plan.kept
    states = kept_states(
        text, plan.tokens, kept, max_tokens=options.max_tokens, progress=progress
    )  # (L + 1, N, C)
    rows_of_sample = np.searchsorted(kept, plan.sample)
    for of_layer in states:
        _add_neighbours(evolution, of_layer[rows_of_sample], plan, options)
        _add_information(evolution, of_layer[rows_of_sample], plan, options)
        if plan.words:
            evolution.planes.append(principal_plane(_word_states(of_layer, kept, plan)))
    views = _add_change(evolution, states, plan, options)
    del states
    _add_influence(evolution, text, plan, options, progress)
    return evolution, views


def _add_change(
    evolution: Evolution, states: Tensor, plan: Plan, options: EvolutionOptions
) -> list[View]:
    """Change by group; returns the views of all tokens by layer."""
    views_of = {}
    for name, places in plan.views.items():
        rows = np.searchsorted(plan.kept, places)
        views = [view_of(of_layer[rows]) for of_layer in states]
        evolution.change[name] = [distance(below, above) for below, above in pairwise(views)]
        if name == ALL:
            views_of[ALL] = views
    if ALL not in views_of:
        return []
    evolution.change[SHUFFLED] = _shuffled_steps(views_of[ALL], options)
    evolution.layers = _distances(views_of[ALL], views_of[ALL])
    return views_of[ALL]


def _add_influence(
    evolution: Evolution,
    text: ReadText,
    plan: Plan,
    options: EvolutionOptions,
    progress: Progress,
) -> None:
    """Influence by the group of the token that is hidden."""
    for name, hidden in plan.hidden.items():
        usual, without = states_with_and_without(
            text,
            plan.tokens,
            hidden.by_sentence,
            hidden.others,
            max_tokens=options.max_tokens,
            progress=progress,
        )
        layers = zip(usual, without, strict=True)
        evolution.influence[name] = [distance(view_of(x), view_of(y)) for x, y in layers]


def _add_neighbours(
    evolution: Evolution, states: Tensor, plan: Plan, options: EvolutionOptions
) -> None:
    """Neighbours of one layer: among all tokens, and among those of the same type."""
    tokens, sample = plan.tokens, plan.sample
    sentences, types = tokens.sentences[sample], tokens.types[sample]
    among_all = nearest(states, sentences, np.zeros(len(sample)), options.neighbours)
    evolution.identity.append(share_alike(among_all, types))
    of_type = nearest(states, sentences, types, options.neighbours)
    evolution.left.append(share_alike(of_type, tokens.left[sample]))
    evolution.right.append(share_alike(of_type, tokens.right[sample]))
    evolution.position.append(mean_distance(of_type, tokens.positions[sample]))


def _add_information(
    evolution: Evolution, states: Tensor, plan: Plan, options: EvolutionOptions
) -> None:
    """Mutual information of one layer; every layer has the same random numbers."""
    rng = np.random.default_rng([options.seed, 4])
    _, types = np.unique(plan.tokens.types[plan.sample], return_inverse=True)
    clusters = kmeans(states, plan.clusters, rng)
    evolution.information.append(mutual_information(types, clusters))
    evolution.shuffled_information.append(shuffled_information(types, clusters, rng))


def _word_states(states: Tensor, kept: np.ndarray, plan: Plan) -> Tensor:
    """A state for each occurrence of a word: the mean of its pieces'."""
    means = []
    for occurrences in plan.words.values():
        for pieces in occurrences:
            means.append(states[np.searchsorted(kept, pieces)].mean(0))
    return torch.stack(means)


def _shuffled_steps(views: Sequence[View], options: EvolutionOptions) -> list[float]:
    """The distance of each layer to the one below if its tokens change places at random."""
    rng = np.random.default_rng([options.seed, 5])
    return [distance(below, shuffled(above, rng)) for below, above in pairwise(views)]


def _distances(first: Sequence[View], second: Sequence[View]) -> Matrix:
    return [[distance(x, y) for y in second] for x in first]
