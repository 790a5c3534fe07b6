"""Error rates of every layer (and head), by method and step, in one pass over a corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

import numpy as np

from fairseq_normalign.alignment.aer import Counts, count, ends, intervals, percent
from fairseq_normalign.alignment.aligner import AlignOptions, NormAligner, Progress
from fairseq_normalign.alignment.evidence import every_evidence
from fairseq_normalign.alignment.layer_choice import SAMPLE, decisive_samples
from fairseq_normalign.alignment.link_doctor import warn_of_misread_gold
from fairseq_normalign.alignment.method_cost import method_costs
from fairseq_normalign.attention.methods import method_of
from fairseq_normalign.attention.soft import STEPS, Evidence
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.raw_corpus import PAIRS, ChunkReader
from fairseq_normalign.host.teacher_forcing import Model
from fairseq_normalign.results.blocks import (
    Block,
    Cell,
    Curve,
    Curves,
    Grid,
    Note,
    Point,
    Row,
    Table,
    on_one_scale,
    without_empty,
)
from fairseq_normalign.results.result import Result
from fairseq_normalign.runs.chunks import Chunk, Partial
from fairseq_normalign.runs.measure import measure_here
from fairseq_normalign.text.links import Gold, GoldFile, InMemory, read_together
from fairseq_normalign.version import __version__

SMALL = 8  # batches of methods that run the model by themselves: they take minutes for a big one
CHECKED = 100  # pairs whose links show whether the gold is read right
Column = tuple[str, str]  # method and step
COLUMN: Callable[[Evidence], Column] = attrgetter("method", "step")
SCORES = ["AER", "95 % from", "to", "P", "R"]
Group = TypeVar("Group")
MARKS = (
    "* marks the layer of lowest AER, + the layer that is chosen without gold. Best by gold: the "
    "layer and step of lowest AER, which gold alone can tell."
)
COST = (
    "Cost of one method by itself at one layer, on the first 100 pairs: time in forward passes, "
    "seconds for 1,000 pairs, memory in MB at most above the model."
)
DASHED = (
    "Dashed: step output, where the decoder predicts a word; else step input, where it "
    "reads the word."
)


@dataclass(frozen=True)
class ErrorTable(Result):
    """How well each layer (and head) of one model aligns, by method and step."""

    scores: Mapping[Evidence, Counts]
    chosen: Mapping[str, Sequence[Evidence]]  # by method: what is chosen without gold, best first
    intervals: Mapping[Evidence, tuple[float, float]] = field(default_factory=dict)  # of AER, 95 %
    rules: Mapping[str, str] = field(default_factory=dict)  # by method: how links are taken
    costs: Mapping[str, Sequence[Cell]] = field(default_factory=dict)  # see ``method_cost``
    advice: Sequence[str] = ()  # what looks wrong with the gold
    signature: Mapping[str, object] = field(default_factory=dict)

    kind = "alignments"
    title = "Alignment error rates"
    about = (
        "AER, the alignment error rate: the lower, the better. Methods: norms takes ‖αf(x)‖, the "
        "length of the vector that attention adds for a source word; weights takes the attention "
        "weight α alone."
    )

    def choice(self, method: str) -> Evidence:
        """The layer and step that are chosen without gold for a method."""
        return self.chosen[method][0]

    def _aer(self, evidence: Evidence) -> float | None:
        """In percent; None if it is undefined, or the method has no such layer."""
        return percent(self.scores[evidence].aer) if evidence in self.scores else None

    def _of_layers(self) -> dict[Evidence, float]:
        """AERs without those of single heads."""
        return {place: counts.aer for place, counts in self.scores.items() if place.head is None}

    @property
    def findings(self) -> list[str]:
        aers = self._of_layers()
        best = min(map(self.choice, self.chosen), key=aers.__getitem__)
        aer = self._aer(best)
        where = f"by {best.method} (layer {place_name(best)}, chosen without gold)."
        return [] if aer is None else [f"AER is {aer:.1f} % {where}"]

    def blocks(self) -> list[Block]:
        blocks: list[Block] = []
        for said in self.advice:
            blocks.append(Note(f"Is the gold read right? {said}.", urgent=True))
        blocks += [self._layers(), self._curves(), self._methods(), Note(MARKS)]
        blocks += [Note(COST)] if self.costs else []
        maps = self._head_maps()
        blocks += [Row(on_one_scale(maps))] if maps else []
        return [*blocks, self._cells()]

    def _layers(self) -> Grid:
        """A row for each method and step, a column for each layer (Kobayashi et al., 2020, Fig. 7).

        Methods of the whole model have a column of their own, called all.
        """
        aers = self._of_layers()
        layers = list(dict.fromkeys(evidence.layer for evidence in aers))
        has_mean = any(layer is not None for layer in layers)
        names, values, marks = [], [], []
        for (method, step), best in lowest(aers, COLUMN).items():
            row, marks_of_row, of_layers = [], [], []
            for layer in layers:
                place = Evidence(method, layer, step)
                row.append(self._aer(place))
                marks_of_row.append("*" * (place == best) + "+" * (place in self.chosen[method]))
                if layer is not None and place in aers:
                    of_layers.append(aers[place])
            if has_mean:
                row.append(percent(fmean(of_layers)) if of_layers else None)
                marks_of_row.append("")
            names.append(f"{method}, {step}")
            values.append(row)
            marks.append(marks_of_row)
        return Grid(
            "AER by layer",
            "method and step",
            "layer",
            names,
            [*map(layer_name, layers), *(["mean"] if has_mean else [])],
            values,
            unit="%",
            decimals=1,
            marks=marks,
            low=True,
            name="layers",
        )

    def _curves(self) -> Curves:
        points: dict[Column, list[Point]] = {}
        for evidence in self._of_layers():
            aer = self._aer(evidence)
            if aer is not None:
                is_chosen = evidence == self.choice(evidence.method)
                interval = ends(self.intervals.get(evidence))
                point = Point(layer_name(evidence.layer), aer, *interval, marked=is_chosen)
                points.setdefault(COLUMN(evidence), []).append(point)
        methods = list(self.chosen)
        curves = []
        for (method, step), of_method in points.items():
            colour = methods.index(method)
            curves.append(Curve(f"{method}, {step}", of_method, step == "output", colour))
        return Curves(
            "AER by layer and method",
            "decoder layer",
            "AER in %",
            curves,
            decimals=1,
            mark="chosen without gold",
            dashes=DASHED,
            drawn=True,
        )

    def _methods(self) -> Table:
        """A row for each method: what is chosen without gold, its score, the best, the cost."""
        best = lowest(self._of_layers(), attrgetter("method"))
        rows: list[list[Cell]] = []
        for method in self.chosen:
            place = self.choice(method)
            row: list[Cell] = [method, place_name(place), *self._score(place)]
            row += [place_name(best[method]), self._aer(best[method])]
            rows.append([*row, *self.costs.get(method, [None] * 3)])
        for name in self.costs.keys() - self.chosen.keys():  # a forward pass
            rows.append([name, *[None] * 8, *self.costs[name]])
        columns = ["method", "chosen", *SCORES, "best by gold", "its AER"]
        columns += ["× forward", "s/1,000", "MB"]
        title = "AER, precision and recall in %, at the layer and step chosen without gold"
        decimals = [0, 0, *[1] * 5, 0, *[1] * 3, 0]
        return without_empty(columns, rows, title, decimals, name="methods")

    def _score(self, evidence: Evidence) -> list[Cell]:
        """AER and its interval, precision and recall."""
        counts = self.scores[evidence]
        ratios = [percent(counts.precision), percent(counts.recall)]
        return [self._aer(evidence), *ends(self.intervals.get(evidence)), *ratios]

    def _head_maps(self) -> list[Grid]:
        """A map of layers and heads for each method and step."""
        columns: dict[Column, list[Evidence]] = {}
        for evidence in self.scores:
            if evidence.head is not None:
                columns.setdefault(COLUMN(evidence), []).append(evidence)
        maps = []
        for (method, step), places in columns.items():
            layers = range(max(place.layer or 0 for place in places) + 1)
            heads = range(max(place.head or 0 for place in places) + 1)
            values = []
            for layer in layers:
                values.append([self._aer(Evidence(method, layer, step, head)) for head in heads])
            maps.append(
                Grid(
                    f"AER of single heads: {method}, {step}",
                    "layer",
                    "head",
                    [str(layer + 1) for layer in layers],
                    [str(head + 1) for head in heads],
                    values,
                    unit="%",
                    decimals=1,
                    low=True,
                    absent="removed",
                )
            )
        return maps

    def _cells(self) -> Table:
        """All that is known of each layer, head, method and step, for programs."""
        best = set(lowest(self._of_layers(), attrgetter("method")).values())
        rows: list[list[Cell]] = []
        for evidence, counts in self.scores.items():
            method, step = COLUMN(evidence)
            row: list[Cell] = [method, *evidence.numbers, step]
            row += [*self._score(evidence), counts.links, int(evidence in self.chosen[method])]
            row += [int(self.choice(method).step == step), int(evidence in best)]
            rows.append([*row, self.rules.get(method)])
        columns = ["method", "layer", "head", "step", *SCORES, "links"]
        columns += ["chosen layer", "chosen step", "best by gold", "extract"]
        return Table(columns, rows, "Every cell", name="cells", hidden=True)


def layer_name(layer: int | None) -> str:
    """A layer, counted from 1, or the whole model."""
    return "all" if layer is None else str(layer + 1)


def place_name(evidence: Evidence) -> str:
    """``1 input``."""
    return f"{layer_name(evidence.layer)} {evidence.step}"


def lowest(
    aers: Mapping[Evidence, float], group_of: Callable[[Evidence], Group]
) -> dict[Group, Evidence]:
    """For each group the evidence of lowest AER, the first one of equals."""
    best: dict[Group, Evidence] = {}
    for evidence, aer in aers.items():
        group = group_of(evidence)
        if group not in best or aer < aers[best[group]]:
            best[group] = evidence
    return best


@dataclass
class MethodErrors:
    """The measure: counts of each pair, layer, method and step. Items are made by ``with_gold``.

    Args:
        options: what the table leaves open: </s>, merging of pieces, extraction, size of batches.
        heads: measure single heads, too.
        costs: measure what each method costs, on the first pairs.
        refuse_misread: refuse gold that looks misread if a flag would mend it.
        name: tells one model of several from the others.
    """

    gold: GoldFile
    methods: Sequence[str]
    options: AlignOptions
    heads: bool = False
    costs: bool = False
    refuse_misread: bool = False
    name: str = "errors"

    pairs_per_chunk: int = field(init=False)
    first_pairs = SAMPLE

    def __post_init__(self) -> None:
        self.in_one_pass = all(method_of(method).needs for method in self.methods)
        self.pairs_per_chunk = 100 if self.in_one_pass else 20

    def _aligner(self, model: Model) -> NormAligner:
        tokens = self.options.batch_tokens
        if not self.in_one_pass:
            tokens = max(1, tokens // SMALL)
        return NormAligner(model.forcing, model.reader, self.options, batch_tokens=tokens)

    def prepare(self, models: ChunkReader, first: Chunk) -> dict[str, Any]:
        """Chooses layers without gold, and looks whether the gold is read right."""
        pairs, golds, _ = _apart(models, first)
        if not pairs:
            raise InputError("error rates cannot be measured on a corpus without pairs")
        aligner = self._aligner(models)
        chosen = layer_choices(aligner, self.methods, pairs)
        places = {method: of_steps[0] for method, of_steps in chosen.items()}
        likely = places[self.methods[0]]  # whose links should not look absurd
        links = []
        for (soft,) in aligner.evidences_many(pairs[:CHECKED], [likely]):
            links.append(set(aligner.links(soft, likely.method)))
        refuse = self.refuse_misread
        advice = warn_of_misread_gold(links, golds[:CHECKED], self.gold, refuse=refuse)
        costs: dict[str, Any] = {}
        if self.costs:
            costs = method_costs(models.forcing, pairs, places, self.options.batch_tokens)
        evidences = every_evidence(models.forcing, self.methods, heads=self.heads)
        return {
            "evidences": sorted(evidences, key=_place_in_table),
            "chosen": chosen,
            "advice": advice,
            "costs": costs,
        }

    def chunk(
        self, models: ChunkReader, chunk: Chunk, prepared: Mapping[str, Any], progress: Progress
    ) -> Partial:
        pairs, golds, notes = _apart(models, chunk)
        aligner, evidences = self._aligner(models), _evidences(prepared["evidences"])
        rows = []
        of_pairs = aligner.evidences_many(pairs, evidences, progress=progress)
        for softs, gold in zip(of_pairs, golds, strict=True):
            row = []
            for evidence, soft in zip(evidences, softs, strict=True):
                row.append(count(set(aligner.links(soft, evidence.method)), gold))
            rows.append(row)
        return Partial({"counts.rows": np.array(rows, dtype=np.int32)}, notes=notes)

    def finish(self, total: Partial, prepared: Mapping[str, Any]) -> ErrorTable:
        evidences = _evidences(prepared["evidences"])
        by_pair = total.arrays["counts.rows"]  # (N, E, 4)
        totals = by_pair.sum(axis=0).tolist()
        return ErrorTable(
            {place: Counts(*total) for place, total in zip(evidences, totals, strict=True)},
            {method: _evidences(chosen) for method, chosen in prepared["chosen"].items()},
            dict(zip(evidences, intervals(by_pair), strict=True)),
            {method: self.options.rule_of(method) for method in self.methods},
            prepared["costs"],
            prepared["advice"],
            self.signature(),
        )

    def signature(self) -> dict[str, object]:
        """The gold, and how soft alignments become links; of some methods in their own way."""
        common = self.options.extraction()
        signature = {"gold": Path(self.gold.name).name, **self.gold.read_as(), **common}
        for method in self.methods:
            way = self.options.extraction(method)
            if way != common:
                signature[method] = ",".join(way.values())
        return {**signature, "version": __version__}


def layer_choices(
    aligner: NormAligner, methods: Iterable[str], first: Sequence[Pair]
) -> dict[str, list[Evidence]]:
    """What is chosen of each method without gold, on the first pairs or the validation set.

    The better step comes first (``LayerVote.chosen``).
    """
    candidates = {}
    for method in methods:
        candidates[method] = every_evidence(aligner.forcing, [method], heads=False)
    several = {method: places for method, places in candidates.items() if len(places) > 1}
    if not several:
        return candidates
    (pairs,) = decisive_samples([aligner], [list(first)])
    votes = aligner.votes(list(several.values()), pairs)
    chosen = {method: vote.chosen() for method, vote in zip(several, votes, strict=True)}
    return {**candidates, **chosen}


def with_gold(gold: GoldFile, items: Iterable[Any]) -> Iterator[Any]:
    """Pairs, in whatever form, each with its sure and possible links."""
    for links, item in read_together(gold, InMemory("the corpus", items)):
        yield item, sorted(links.sure), sorted(links.possible)


def _apart(
    models: ChunkReader, chunk: Chunk
) -> tuple[Sequence[Pair], list[Gold], Mapping[str, Any]]:
    """The pairs of a chunk, their gold, and the notes of the chunk."""
    items, golds = [], []
    for item, sure, possible in chunk.items:
        items.append(item)
        golds.append(Gold(set(sure), set(possible)))
    pairs, notes = models.pairs(chunk._replace(items=items))
    return pairs, golds, notes


def error_table(
    model: Model,
    pairs: Iterable[Pair],
    gold: GoldFile,
    methods: Sequence[str],
    *,
    options: AlignOptions | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> ErrorTable:
    """AER of each layer, and of each head if ``heads``; warns if the gold seems to be misread.

    Args:
        options: what the table leaves open: </s>, merging of pieces, extraction, size of batches.
        progress: called with the number of pairs that were finished since its last call.
        settings: ``heads``, ``costs`` and ``refuse_misread`` of ``MethodErrors``.
    """
    measure = MethodErrors(gold, methods, options or AlignOptions(), **settings)
    return measure_here(measure, ChunkReader([model], PAIRS), with_gold(gold, pairs), progress)


def _evidences(stored: Iterable[Sequence]) -> list[Evidence]:
    """From JSON, which has lists."""
    return [Evidence(*evidence) for evidence in stored]


def _place_in_table(evidence: Evidence) -> tuple[bool, int, int, int]:
    """By layer, head and step; the whole model last."""
    layer, head = evidence.numbers
    return layer is None, layer or 0, head or 0, list(STEPS).index(evidence.step)
