"""Error rates of many soft alignments side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from statistics import fmean
from typing import TypeVar

from fairseq_normalign.alignment.aer import Counts, ends, percent
from fairseq_normalign.attention.soft import Choice, Evidence
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
STEPS = (
    "Dashed: step output, where the decoder predicts a word; else step input, where it "
    "reads the word."
)


@dataclass(frozen=True)
class ErrorTable(Result):
    """How well each layer (and head) of one model aligns, by method and step."""

    scores: Mapping[Evidence, Counts]
    choices: Mapping[str, Choice]  # by method: what is chosen without gold
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
        return chosen_place(method, self.choices[method])

    def _is_chosen_layer(self, evidence: Evidence) -> bool:
        """Whether this layer is the one that is chosen without gold for its step."""
        layers = self.choices[evidence.method].layers
        return evidence.head is None and layers.get(evidence.step, -1) == evidence.layer

    def _aer(self, evidence: Evidence) -> float | None:
        """In percent; None if it is undefined, or the method has no such layer."""
        return percent(self.scores[evidence].aer) if evidence in self.scores else None

    def _of_layers(self) -> dict[Evidence, float]:
        """AERs without those of single heads."""
        found = {}
        for evidence, counts in self.scores.items():
            if evidence.head is None:
                found[evidence] = counts.aer
        return found

    @property
    def findings(self) -> list[str]:
        aers = self._of_layers()
        best = min(map(self.choice, self.choices), key=aers.__getitem__)
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
                marks_of_row.append("*" * (place == best) + "+" * self._is_chosen_layer(place))
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
        methods = list(self.choices)
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
            dashes=STEPS,
            drawn=True,
        )

    def _methods(self) -> Table:
        """A row for each method: what is chosen without gold, its score, the best, the cost."""
        best = lowest(self._of_layers(), attrgetter("method"))
        rows: list[list[Cell]] = []
        for method in self.choices:
            place = self.choice(method)
            row: list[Cell] = [method, place_name(place), *self._score(place)]
            row += [place_name(best[method]), self._aer(best[method])]
            rows.append([*row, *self.costs.get(method, [None] * 3)])
        for name in self.costs.keys() - self.choices.keys():  # a forward pass
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
            method, layer, step, head = evidence
            place = [None if number is None else number + 1 for number in (layer, head)]
            row: list[Cell] = [method, *place, step, *self._score(evidence), counts.links]
            row += [int(self._is_chosen_layer(evidence)), int(self.choices[method].step == step)]
            rows.append([*row, int(evidence in best), self.rules.get(method)])
        columns = ["method", "layer", "head", "step", *SCORES, "links"]
        columns += ["chosen layer", "chosen step", "best by gold", "extract"]
        return Table(columns, rows, "Every cell", name="cells", hidden=True)


def chosen_place(method: str, choice: Choice) -> Evidence:
    return Evidence(method, choice.layers[choice.step], choice.step)


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
