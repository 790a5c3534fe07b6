"""How representations evolve from layer to layer (Voita, Sennrich and Titov, EMNLP 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fairseq_normalign.layers.evolution_plan import ALL, ANY, EvolutionOptions, Plan, plan_of
from fairseq_normalign.layers.geometry import (
    View,
    kmeans,
    mean_distance,
    mutual_information,
    nearest,
    principal_plane,
    pwcca_distance,
    random_distance,
    random_share,
    share_alike,
    shuffled_information,
    shuffled_view,
    view_of,
)
from fairseq_normalign.layers.state_pass import Progress, kept_states, states_with_and_without
from fairseq_normalign.layers.token_table import ReadText
from fairseq_normalign.results.blocks import (
    Block,
    Cell,
    Cloud,
    Clouds,
    Curves,
    Grid,
    Note,
    Row,
    by_layer,
    without_empty,
)
from fairseq_normalign.results.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Matrix = list[list[float]]
MEASURES = {
    "identity": "share that is the same token",
    "left": "share with the same token before",
    "right": "share with the same token after",
    "position": "distance in tokens",
}
LEGEND = (
    "identity: share of a token's nearest neighbours that are the same token; left, right: of its "
    "neighbours among the same token, the share with the same token before or after it; position: "
    "how far these are apart in their sentences; information: between tokens and clusters of "
    "states, in nats, at most {ceiling:.2f}; change: PWCCA distance to the layer below; influence: "
    "PWCCA distance that hiding one token makes for others; shuffled: of tokens in random order; "
    "frequencies are those in the training data."
)


@dataclass
class Evolution:
    """What was measured of one model; a number for each layer from 0, unless it says otherwise.

    Attributes:
        identity: share of nearest neighbours that are the same token.
        left: of neighbours among the same token, those with the same token before it.
        right: those with the same token after it.
        position: |pos − pos'| to neighbours among the same token.
        information: between tokens and clusters, in nats, and ``shuffled_information`` beside it.
        change: PWCCA distance to the layer below, from layer 1, by group of tokens.
        shuffled_change: that of all tokens if they change places.
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
    shuffled_change: list[float] = field(default_factory=list)
    influence: dict[str, list[float]] = field(default_factory=dict)
    layers: Matrix = field(default_factory=list)
    planes: list[tuple[np.ndarray, float]] = field(default_factory=list)


@dataclass(frozen=True)
class EvolutionResult(Result):
    """What was measured of some models of one text.

    Args:
        random: what identity, left, right and position are of neighbours drawn at random.
        ceiling: of information: ln V, all that there is to know of V types; ln K of fewer clusters.
        between: PWCCA distances between the layers of two models.
        pictured: the word of each point of the planes.
    """

    models: Sequence[Evolution]
    random: Mapping[str, float]
    ceiling: float
    between: Mapping[tuple[str, str], Matrix]
    pictured: Sequence[str]
    signature: Mapping[str, object]

    kind = "evolution"
    title = "States of layers"
    about = (
        "What the states after each layer still tell of the token itself and of its neighbours; "
        "layer 0 are embeddings."
    )

    @property
    def findings(self) -> list[str]:
        found = []
        for model in self.models:
            shares = [100 * share for share in (model.identity[-1], self.random["identity"])]
            found.append(
                f"{model.name}: after the last layer, {shares[0]:.0f} % of a token's nearest "
                f"neighbours are the same token ({shares[1]:.0f} % by chance)."
            )
        return found

    def blocks(self) -> list[Block]:
        blocks: list[Block] = []
        by_group: list[Block] = []
        maps: list[Block] = []
        for model in self.models:
            blocks.append(self._table(model))
            if model.change:
                title = f"{model.name}: change by frequency"
                by_group.append(_groups(title, model.change, decimals=3))
            if model.influence:
                title = f"{model.name}: influence by the frequency of the hidden token"
                by_group.append(_groups(title, model.influence, decimals=4))
            if model.layers:
                maps.append(_distances_map(f"{model.name}: distances of layers", model.layers))
        blocks.append(Row([*map(self._curves, MEASURES), self._information()]))
        blocks += [Row(by_group)] if by_group else []
        if self.between:
            blocks.append(self._between())
        for (first, second), matrix in self.between.items():
            maps.append(_distances_map(f"{first} – {second}: distances", matrix, first, second))
        blocks += [Row(maps)] if maps else []
        return [*blocks, Note(LEGEND.format(ceiling=self.ceiling))]

    def _table(self, model: Evolution) -> Block:
        """What neighbours and clusters say of each layer, and what chance would."""
        rows: list[list[Cell]] = [["random", *map(self.random.get, MEASURES), *[None] * 4]]
        change = [None, *model.change.get(ALL, ())]
        shuffled = [None, *model.shuffled_change]
        for layer in range(len(model.identity)):
            row: list[Cell] = [str(layer), *(getattr(model, name)[layer] for name in MEASURES)]
            row += [model.information[layer], model.shuffled_information[layer]]
            row += [
                of_layer[layer] if len(of_layer) > 1 else None for of_layer in (change, shuffled)
            ]
            rows.append(row)
        columns = ["layer", *MEASURES, "information", "shuffled", "change", "shuffled change"]
        decimals = [0, 3, 3, 3, 2, 2, 2, 3, 3]
        return without_empty(columns, rows, f"{model.name}, {model.part}", decimals)

    def _curves(self, name: str) -> Curves:
        """One measure of neighbours in all models, and that of neighbours drawn at random."""
        curves = [by_layer(model.name, getattr(model, name)) for model in self.models]
        chance = [self.random[name]] * max(len(curve.points) for curve in curves)
        curves.append(by_layer("random", chance, dashed=True))
        return Curves(name, "layer", MEASURES[name], curves, 3, zero=True, drawn=True)

    def _information(self) -> Curves:
        curves = []
        for place, model in enumerate(self.models):
            curves.append(by_layer(model.name, model.information, colour=place))
            shuffled = by_layer(
                f"{model.name}, shuffled", model.shuffled_information, dashed=True, colour=place
            )
            curves.append(shuffled)
        most = [self.ceiling] * max(len(curve.points) for curve in curves)
        curves.append(by_layer("ceiling", most, dashed=True, colour=len(self.models)))
        meaning = "information of tokens in clusters, nats"
        return Curves("information", "layer", meaning, curves, zero=True, drawn=True)

    def _between(self) -> Curves:
        """Distances of the same layer in two models."""
        curves = []
        for names, matrix in self.between.items():
            curves.append(by_layer(" – ".join(names), np.diagonal(matrix).tolist()))
        title = "PWCCA distance between models, layer by layer"
        return Curves(title, "layer", "PWCCA distance", curves, 3, zero=True)

    def words_figure(self) -> Figure:
        """States of words by their first two principal components: models × layers."""
        from fairseq_normalign.results.figure import drawn

        words = np.array(self.pictured)
        panels = []
        for model in self.models:
            for layer, (plane, share) in enumerate(model.planes):
                clouds = []
                for word in dict.fromkeys(self.pictured):
                    clouds.append(Cloud(word, plane[words == word].tolist()))
                title = f"{model.name}, layer {layer} ({100 * share:.0f} % of variance)"
                panels.append(Clouds(title, "first component", "second component", clouds))
        return drawn(panels, "States of words")


def _groups(title: str, by_group: Mapping[str, Sequence[float]], *, decimals: int) -> Curves:
    """A curve for each group of frequency; that of all tokens is dashed."""
    curves = []
    for name, values in by_group.items():
        curves.append(by_layer(name, values, first=1, dashed=name in (ALL, ANY)))
    return Curves(title, "layer", "PWCCA distance", curves, decimals, zero=True)


def _distances_map(title: str, matrix: Matrix, first: str = "", second: str = "") -> Grid:
    rows, columns = map(str, range(len(matrix))), map(str, range(len(matrix[0])))
    axes = (f"layer {first}".strip(), f"layer {second}".strip())
    return Grid(title, *axes, list(rows), list(columns), matrix, drawn=True, name=title)


def evolution(
    texts: Sequence[ReadText], options: EvolutionOptions | None = None, **changes: Any
) -> EvolutionResult:
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
) -> EvolutionResult:
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
    return EvolutionResult(
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
        signature["frequencies"] = Path(options.frequencies or "dictionary").name
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
    of_all: list[View] = []
    for name, places in plan.views.items():
        rows = np.searchsorted(plan.kept, places)
        views = [view_of(of_layer[rows]) for of_layer in states]
        evolution.change[name] = [pwcca_distance(below, above) for below, above in pairwise(views)]
        if name == ALL:
            of_all = views
            evolution.shuffled_change = _shuffled_steps(views, options)
            evolution.layers = _distances(views, views)
    return of_all


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
        evolution.influence[name] = [pwcca_distance(view_of(x), view_of(y)) for x, y in layers]


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
    return [pwcca_distance(below, shuffled_view(above, rng)) for below, above in pairwise(views)]


def _distances(first: Sequence[View], second: Sequence[View]) -> Matrix:
    return [[pwcca_distance(x, y) for y in second] for x in first]
