"""How representations evolve from layer to layer (Voita, Sennrich and Titov, EMNLP 2019)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fairseq_normalign.host.batches import Progress, numbered_batches
from fairseq_normalign.layers.evolution_plan import ALL, ANY, EvolutionOptions, Plan, plan_of
from fairseq_normalign.layers.geometry import (
    Compared,
    View,
    kmeans,
    mean_distance,
    mutual_information,
    nearest,
    possible_neighbours,
    principal_plane,
    pwcca_distance,
    share_alike,
    shuffled_information,
    shuffled_view,
    view_of,
)
from fairseq_normalign.layers.token_table import ReadText, Tokens
from fairseq_normalign.progress import bar
from fairseq_normalign.results.blocks import (
    Block,
    Cell,
    Cloud,
    Clouds,
    Curves,
    Grid,
    Note,
    Row,
    Table,
    by_layer,
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


@dataclass(frozen=True)
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
        planes: states of words by their first two principal components, and their variance.
    """

    name: str
    part: str
    identity: Sequence[float]
    left: Sequence[float]
    right: Sequence[float]
    position: Sequence[float]
    information: Sequence[float]
    shuffled_information: Sequence[float]
    change: Mapping[str, Sequence[float]]
    shuffled_change: Sequence[float]
    influence: Mapping[str, Sequence[float]]
    layers: Matrix  # PWCCA distances between all layers
    planes: Sequence[tuple[np.ndarray, float]]


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
        by_group: list[Block] = []
        maps: list[Block] = []
        between = []  # distances of the same layer in two models
        for model in self.models:
            influence = "influence by the frequency of the hidden token"
            by_group += _groups(f"{model.name}: change by frequency", model.change, decimals=3)
            by_group += _groups(f"{model.name}: {influence}", model.influence, decimals=4)
            if model.layers:
                maps.append(_distances_map(f"{model.name}: distances of layers", model.layers))
        for (first, second), matrix in self.between.items():
            between.append(by_layer(f"{first} – {second}", np.diagonal(matrix).tolist()))
            maps.append(_distances_map(f"{first} – {second}: distances", matrix, first, second))
        blocks: list[Block] = [self._table(model) for model in self.models]
        blocks.append(Row(self._curves()))
        if by_group:
            blocks.append(Row(by_group))
        if between:
            title = "PWCCA distance between models, layer by layer"
            blocks.append(Curves(title, "layer", "PWCCA distance", between, 3, zero=True))
        if maps:
            blocks.append(Row(maps))
        return [*blocks, Note(LEGEND.format(ceiling=self.ceiling))]

    def _table(self, model: Evolution) -> Block:
        """What neighbours and clusters say of each layer, and what chance would."""
        columns: dict[str, list[Cell]] = {}
        for name in MEASURES:
            columns[name] = [self.random[name], *getattr(model, name)]
        columns["information"] = [None, *model.information]
        columns["shuffled"] = [None, *model.shuffled_information]
        if model.change:
            columns["change"] = [None, None, *model.change[ALL]]
            columns["shuffled change"] = [None, None, *model.shuffled_change]
        names = ["random", *map(str, range(len(model.identity)))]
        rows = [list(row) for row in zip(names, *columns.values(), strict=True)]
        title = f"{model.name}, {model.part}"
        decimals = [0, 3, 3, 3, 2, 2, 2, 3, 3]
        return Table(["layer", *columns], rows, title, decimals[: 1 + len(columns)])

    def _curves(self) -> list[Block]:
        """Each measure in all models, with what neighbours drawn at random or shuffling give."""
        depth = max(len(model.identity) for model in self.models)  # embeddings are a layer
        blocks: list[Block] = []
        for name, meaning in MEASURES.items():
            curves = [by_layer(model.name, getattr(model, name)) for model in self.models]
            curves.append(by_layer("random", [self.random[name]] * depth, dashed=True))
            blocks.append(Curves(name, "layer", meaning, curves, 3, zero=True, drawn=True))
        curves = []
        for place, model in enumerate(self.models):
            name, shuffled = f"{model.name}, shuffled", model.shuffled_information
            curves.append(by_layer(model.name, model.information, colour=place))
            curves.append(by_layer(name, shuffled, dashed=True, colour=place))
        most = [self.ceiling] * depth
        curves.append(by_layer("ceiling", most, dashed=True, colour=len(self.models)))
        meaning = "information of tokens in clusters, nats"
        return [*blocks, Curves("information", "layer", meaning, curves, zero=True, drawn=True)]

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


def _groups(title: str, by_group: Mapping[str, Sequence[float]], *, decimals: int) -> list[Curves]:
    """A curve for each group of frequency, if there are any; that of all tokens is dashed."""
    curves = []
    for name, values in by_group.items():
        curves.append(by_layer(name, values, first=1, dashed=name in (ALL, ANY)))
    chart = Curves(title, "layer", "PWCCA distance", curves, decimals, zero=True)
    return [chart] if curves else []


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
    plan = plan_of(texts, options)
    models = []
    views = {}
    with bar("states", total=plan.sentences * len(texts), unit="sentences") as shown:
        for text in texts:
            evolution, views[text.name] = _measure(text, plan, options, shown.update)
            models.append(evolution)
    between = {}
    if plan.views:
        for first, second in combinations(views, 2):
            between[first, second] = _distances(views[first], views[second])
    pictured = []
    for word, occurrences in plan.words.items():
        pictured += [word] * len(occurrences)
    sampled = plan.sampled
    everywhere = np.zeros(len(sampled.types))
    random = _neighbours(
        plan,
        possible_neighbours(sampled.sentences, everywhere),
        possible_neighbours(sampled.sentences, sampled.types),
    )
    types = len(np.unique(sampled.types))
    ceiling = float(np.log(min(types, plan.clusters)))
    signature = _signature(plan, options, types)
    return EvolutionResult(models, random, ceiling, between, pictured, signature)


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


def _measure(
    text: ReadText, plan: Plan, options: EvolutionOptions, progress: Progress
) -> tuple[Evolution, list[View]]:
    """What is to be known of one model, and its views of all tokens by layer."""
    run = partial(kept_states, text, plan.tokens, max_tokens=options.max_tokens)
    kept = plan.kept
    states = run(kept, progress=progress)  # (L + 1, N, C)
    rows_of_sample = np.searchsorted(kept, plan.sample)
    rows_of_words = [np.searchsorted(kept, pieces) for pieces in chain(*plan.words.values())]
    layers, planes = [], []
    for of_layer in states:
        layers.append(_measure_layer(of_layer[rows_of_sample], plan, options))
        if rows_of_words:  # the state of a word is the mean of those of its pieces
            of_words = [of_layer[pieces].mean(0) for pieces in rows_of_words]
            planes.append(principal_plane(torch.stack(of_words)))
    of_all: list[View] = []
    change = {}
    for name, places in plan.views.items():
        rows = np.searchsorted(kept, places)
        views = [view_of(of_layer[rows]) for of_layer in states]
        change[name] = [pwcca_distance(below, above) for below, above in pairwise(views)]
        of_all = of_all or views  # the first group is that of all tokens
    del states
    rng = np.random.default_rng([options.seed, 5])
    shuffled_change = []  # of tokens that change places at random
    for below, above in pairwise(of_all):
        shuffled_change.append(pwcca_distance(below, shuffled_view(above, rng)))
    influence = {}
    for name, (hidden, others) in plan.hidden.items():
        usual = run(others, progress=progress)[1:]
        without = run(others, hidden=hidden)
        of_layers = zip(usual, without, strict=True)
        influence[name] = [pwcca_distance(view_of(x), view_of(y)) for x, y in of_layers]
    evolution = Evolution(
        name=text.name,
        part=text.states.part,
        **{name: [of_layer[name] for of_layer in layers] for name in layers[0]},
        change=change,
        shuffled_change=shuffled_change,
        influence=influence,
        layers=_distances(of_all, of_all),
        planes=planes,
    )
    return evolution, of_all


def _measure_layer(states: Tensor, plan: Plan, options: EvolutionOptions) -> dict[str, float]:
    """What neighbours and clusters say of one layer; all layers have the same random numbers."""
    sampled = plan.sampled
    everywhere = np.zeros(len(states))
    among_all = nearest(states, sampled.sentences, everywhere, options.neighbours)
    of_type = nearest(states, sampled.sentences, sampled.types, options.neighbours)
    rng = np.random.default_rng([options.seed, 4])
    clusters = kmeans(states, plan.clusters, rng)
    return {
        **_neighbours(plan, [among_all], [of_type]),
        "information": mutual_information(sampled.types, clusters),
        "shuffled_information": shuffled_information(sampled.types, clusters, rng),
    }


def _neighbours(
    plan: Plan, among_all: Iterable[Compared], of_type: Iterable[Compared]
) -> dict[str, float]:
    """What neighbours among all tokens, and among those of the same type, say of tokens."""
    sampled, of_type = plan.sampled, list(of_type)
    return {
        "identity": share_alike(among_all, sampled.types),
        "left": share_alike(of_type, sampled.left),
        "right": share_alike(of_type, sampled.right),
        "position": mean_distance(of_type, sampled.positions),
    }


def _distances(first: Sequence[View], second: Sequence[View]) -> Matrix:
    return [[pwcca_distance(x, y) for y in second] for x in first]


def kept_states(
    text: ReadText,
    tokens: Tokens,
    kept: np.ndarray,
    *,
    hidden: Mapping[int, int] | None = None,
    rows: np.ndarray | None = None,
    max_tokens: int = 4000,
    progress: Progress | None = None,
) -> Tensor:
    """The states of some tokens by layer, from 0: (L + 1, N, C).

    Memory is that of the tokens that are kept, however long the text is.

    Args:
        kept: places in ``tokens``, ascending.
        hidden: for each sentence a token that each layer alone does not see, as its place in
            ``tokens``; then the layers are those from 1, (L, N, C).
        rows: where the state of each token goes, as that of its word; the mean, if there are
            several.
    """
    states = text.states
    sentences, positions = tokens.sentences[kept], tokens.positions[kept]
    needed = np.unique(sentences).tolist()
    layers = len(states.layers) + (hidden is None)
    into = torch.from_numpy(np.arange(len(kept)) if rows is None else rows)
    counts = into.bincount()
    found = torch.zeros(layers, len(counts), states.width)
    pairs = [text.pairs[sentence] for sentence in needed]
    for numbered in numbered_batches(pairs, max_tokens=max_tokens, progress=progress):
        batch = [pair for _, pair in numbered]
        numbers = [needed[place] for place, _ in numbered]
        if hidden is None:
            of_layers = states.run(batch)
        else:
            positions_hidden = [tokens.positions[hidden[sentence]] for sentence in numbers]
            read = zip(batch, positions_hidden, strict=True)
            of_layers = states.run_without(batch, [text.places(pair)[at] for pair, at in read])
        for row, (sentence, pair) in enumerate(zip(numbers, batch, strict=True)):
            part = slice(*np.searchsorted(sentences, [sentence, sentence + 1]).tolist())
            places = np.array(text.places(pair))[positions[part]].tolist()
            for layer, of_batch in enumerate(of_layers):
                found[layer].index_add_(0, into[part], of_batch[row, places].float().cpu())
    return found.div_(counts.unsqueeze(1))
