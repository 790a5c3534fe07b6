"""How representations evolve from layer to layer (Voita, Sennrich and Titov, EMNLP 2019)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations, pairwise, starmap
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fairseq_normalign.host.batches import Progress, numbered_batches
from fairseq_normalign.layers.evolution_plan import (
    ALL,
    ANY,
    NEIGHBOURS,
    EvolutionOptions,
    Plan,
    plan_of,
)
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
from fairseq_normalign.layers.token_table import ReadText, Tokens, check_same_pieces, tokens_of
from fairseq_normalign.progress import bar
from fairseq_normalign.results.blocks import (
    Block,
    Cloud,
    Clouds,
    Curves,
    Grid,
    Note,
    Row,
    Rows,
    Table,
    by_layer,
)
from fairseq_normalign.results.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Matrix = list[list[float]]
Series = Mapping[str, list[float]]  # by name, a number for each layer
MEASURES = {
    "identity": "share that is the same token",
    "left": "share with the same token before",
    "right": "share with the same token after",
    "position": "distance in tokens",
    "information": "information of tokens in clusters, nats",
}
DECIMALS = {"position": 2, "information": 2, "shuffled": 2}  # of columns; of all others 3
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
    """What was measured of one model.

    Attributes:
        columns: MEASURES and change, information and change also of shuffled tokens: a number for
            each layer, from 0, of change from 1.
        change: PWCCA distance to the layer below, from layer 1, by group of tokens.
        influence: PWCCA distance that hiding a token makes, from layer 1, by its group.
        layers: PWCCA distances between all layers.
        planes: states of words by their first two principal components, and their variance.
    """

    name: str
    part: str
    columns: Series
    change: Series
    influence: Series
    layers: Matrix
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
            last, by_chance = 100 * model.columns["identity"][-1], 100 * self.random["identity"]
            found.append(
                f"{model.name}: after the last layer, {last:.0f} % of a token's nearest "
                f"neighbours are the same token ({by_chance:.0f} % by chance)."
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
        blocks: list[Block] = [*map(self._table, self.models), Row(self._curves())]
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
        depth = len(model.columns["identity"])
        columns: Rows = [["random", *map(str, range(depth))]]
        for name, values in model.columns.items():
            missing = [None] * (depth - len(values))
            columns.append([self.random.get(name), *missing, *values])
        rows = list(zip(*columns, strict=True))
        decimals = [0, *(DECIMALS.get(name, 3) for name in model.columns)]
        return Table(["layer", *model.columns], rows, f"{model.name}, {model.part}", decimals)

    def _curves(self) -> list[Block]:
        """Each measure in all models, with what neighbours drawn at random or shuffling give."""
        depth = max(len(model.columns["identity"]) for model in self.models)
        blocks: list[Block] = []
        for name, meaning in MEASURES.items():
            by_chance = name in self.random
            curves = []
            for place, model in enumerate(self.models):
                curves.append(by_layer(model.name, model.columns[name], colour=place))
                if not by_chance:
                    look = {"dashed": True, "colour": place}
                    curves.append(
                        by_layer(f"{model.name}, shuffled", model.columns["shuffled"], **look)
                    )
            level = [self.random.get(name, self.ceiling)] * depth
            look = {"dashed": True, "colour": len(self.models)}
            curves.append(by_layer("random" if by_chance else "ceiling", level, **look))
            decimals = DECIMALS.get(name, 3)
            blocks.append(Curves(name, "layer", meaning, curves, decimals, zero=True, drawn=True))
        return blocks

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


def _groups(title: str, by_group: Series, *, decimals: int) -> list[Curves]:
    """A curve for each group of frequency, if there are any; that of all tokens is dashed."""
    curves = []
    for name, values in by_group.items():
        curves.append(by_layer(name, values, first=1, dashed=name in (ALL, ANY)))
    chart = Curves(title, "layer", "PWCCA distance", curves, decimals, zero=True)
    return [chart] if curves else []


def _distances_map(title: str, matrix: Matrix, first: str = "", second: str = "") -> Grid:
    rows, columns = ([str(layer) for layer in range(size)] for size in np.shape(matrix))
    axes = f"layer {first}".strip(), f"layer {second}".strip()
    return Grid(title, *axes, rows, columns, matrix, drawn=True, name=title)


def evolution(
    texts: Sequence[ReadText], options: EvolutionOptions | None = None, **changes: Any
) -> EvolutionResult:
    """How the representations of some models of one text evolve.

    Args:
        texts: the models, each with the text as it reads it.
        options: see :class:`EvolutionOptions`; or name them one by one.
    """
    first, *others = texts
    for other in others:
        check_same_pieces(first, other)
    measuring = replace(options or EvolutionOptions(), **changes)
    plan = plan_of(texts, tokens_of(first), measuring)
    models, views = [], {}
    with bar("states", total=plan.sentences * len(texts), unit="sentences") as shown:
        for text in texts:
            evolution, views[text.name] = _measure(text, plan, shown.update)
            models.append(evolution)
    between = {}
    if plan.views:
        for one, two in combinations(views, 2):
            between[one, two] = _distances(views[one], views[two])
    sampled = plan.sampled
    among_all = possible_neighbours(sampled.sentences, np.zeros(len(sampled.types)))
    of_type = possible_neighbours(sampled.sentences, sampled.types)
    random = _neighbours(plan, among_all, list(of_type))
    ceiling = float(np.log(min(plan.types, plan.clusters)))
    pictured = [word for word, occurrences in plan.words.items() for _ in occurrences]
    return EvolutionResult(models, random, ceiling, between, pictured, plan.signature)


def _measure(text: ReadText, plan: Plan, progress: Progress) -> tuple[Evolution, list[View]]:
    """What is to be known of one model, and its views of all tokens by layer."""
    run = partial(kept_states, text, plan.tokens, max_tokens=plan.options.max_tokens)
    rows_of = partial(np.searchsorted, plan.kept)
    states = run(plan.kept, progress=progress)  # (L + 1, N, C)
    layers, planes = [], []
    for of_layer in states:
        layers.append(_measure_layer(of_layer[rows_of(plan.sample)], plan))
        if plan.words:  # the state of a word is the mean of those of its pieces
            occurrences = chain(*plan.words.values())
            of_words = [of_layer[rows_of(pieces)].mean(0) for pieces in occurrences]
            planes.append(principal_plane(torch.stack(of_words)))
    columns = {name: [of_layer[name] for of_layer in layers] for name in layers[0]}
    of_all: list[View] = []
    change = {}
    for name, places in plan.views.items():
        views = [view_of(of_layer[rows_of(places)]) for of_layer in states]
        change[name] = list(starmap(pwcca_distance, pairwise(views)))
        of_all = of_all or views  # the first group is that of all tokens
    del states
    if change:
        rng = plan.options.rng(5)
        shuffled = [shuffled_view(view, rng) for view in of_all[1:]]  # tokens change places
        columns["change"] = change[ALL]
        columns["shuffled change"] = list(map(pwcca_distance, of_all, shuffled))
    influence = {}
    for name, (hidden, others) in plan.hidden.items():
        usual = map(view_of, run(others, progress=progress)[1:])
        without = map(view_of, run(others, hidden=hidden))
        influence[name] = list(map(pwcca_distance, usual, without))
    distances = _distances(of_all, of_all)
    part = text.states.part
    return Evolution(text.name, part, columns, change, influence, distances, planes), of_all


def _measure_layer(states: Tensor, plan: Plan) -> dict[str, float]:
    """What neighbours and clusters say of one layer; all layers have the same random numbers."""
    sampled = plan.sampled
    among_all = nearest(states, sampled.sentences, np.zeros(len(states)), NEIGHBOURS)
    of_type = list(nearest(states, sampled.sentences, sampled.types, NEIGHBOURS))
    rng = plan.options.rng(4)
    clusters = kmeans(states, plan.clusters, rng)
    return {
        **_neighbours(plan, among_all, of_type),
        "information": mutual_information(sampled.types, clusters),
        "shuffled": shuffled_information(sampled.types, clusters, rng),
    }


def _neighbours(
    plan: Plan, among_all: Iterable[Compared], of_type: Sequence[Compared]
) -> dict[str, float]:
    """What neighbours among all tokens, and among those of the same type, say of tokens."""
    sampled = plan.sampled
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
    into = torch.from_numpy(np.arange(len(kept)) if rows is None else rows)
    counts = into.bincount()
    found = torch.zeros(len(states.layers) + (hidden is None), len(counts), states.width)
    needed = np.unique(sentences)
    pairs = [text.pairs[sentence] for sentence in needed]
    for numbered in numbered_batches(pairs, max_tokens=max_tokens, progress=progress):
        batch = [pair for _, pair in numbered]
        numbers = needed[[place for place, _ in numbered]]
        reads = [np.array(text.places(pair)) for pair in batch]
        if hidden is None:
            of_layers = states.run(batch)
        else:
            unseen = [tokens.positions[hidden[sentence]] for sentence in numbers.tolist()]
            places = [int(read[position]) for read, position in zip(reads, unseen, strict=True)]
            of_layers = states.run_without(batch, places)
        starts, ends = np.searchsorted(sentences, [numbers, numbers + 1])
        for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
            read = reads[row][positions[start:end]]
            for of_layer, of_batch in zip(found, of_layers, strict=True):
                of_layer.index_add_(0, into[start:end], of_batch[row, read].float().cpu())
    return found.div_(counts.unsqueeze(1))
