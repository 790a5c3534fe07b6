"""What is known of the heads of a model, and what is shown of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import fmean
from typing import Any, NamedTuple

from fairseq_normalign.heads.correlation import Pairs, correlations, correlations_within_layers
from fairseq_normalign.heads.head_scores import FUNCTIONS, HEAD_SCORES, Roles
from fairseq_normalign.names import KINDS, Head, by_kind
from fairseq_normalign.results.blocks import (
    Block,
    Cell,
    Grid,
    Note,
    Row,
    Rows,
    Table,
    chosen_from,
)
from fairseq_normalign.results.result import Result

LETTERS = {name: name[0].upper() for name in FUNCTIONS}
SUMMARIES: dict[str, Callable[[Sequence[float]], float]] = {
    "lowest": min,
    "mean": fmean,
    "highest": max,
}


class Finding(NamedTuple):
    """What one score says.

    Args:
        scores: a number for each head.
        settings: the choices that moved the numbers, for the signature.
        roles: of each head, functions and labels such as ``-1 (97 %)``.
        blocks: what is shown beside the table of heads, and tables for programs.
        labels: other words about a head; each is a column in this table.
    """

    scores: Mapping[Head, float] = {}
    settings: Mapping[str, Any] = {}
    roles: Mapping[Head, Roles] = {}
    blocks: Sequence[Block] = ()
    labels: Mapping[str, Mapping[Head, str]] = {}


@dataclass
class Profile(Result):
    """Scores and roles of the heads of a model; what was not measured is not there.

    Scores are as they were measured; what is shown of shares is in percent.
    """

    heads: Sequence[Head]
    by_score: Mapping[str, Finding]  # in the order of columns
    signature: dict[str, Any] = field(default_factory=dict)  # how all of it was measured

    kind = "heads"
    title = "Attention heads"
    about = "Every map shows one score of all heads: a row for each layer, a column for each head."

    @property
    def scores(self) -> dict[str, Mapping[Head, float]]:
        """Those that are compared: without the shares that roles are awarded by."""
        scores = {}
        for name, finding in self.by_score.items():
            if finding.scores and not HEAD_SCORES[name].share:
                scores[name] = finding.scores
        return scores

    def roles(self, head: Head) -> Roles:
        """Functions and labels such as ``-1 (97 %)``, ``rare (55 %)`` or ``nsubj→head 62/35``.

        The last one has accuracy and baseline in %.
        """
        roles: Roles = []
        for finding in self.by_score.values():
            roles += finding.roles.get(head, ())
        return roles

    def _shown(self) -> dict[str, dict[Head, float]]:
        """All scores, shares in percent."""
        shown = {}
        for name, finding in self.by_score.items():
            if finding.scores:
                factor = 100 if HEAD_SCORES[name].percent else 1
                shown[name] = {head: factor * own for head, own in finding.scores.items()}
        return shown

    def _labels(self) -> dict[str, Mapping[Head, str]]:
        labels: dict[str, Mapping[Head, str]] = {}
        for finding in self.by_score.values():
            labels |= finding.labels
        return labels

    def _groups(self) -> dict[str, Sequence[Head]]:
        """The heads of each kind."""
        return {KINDS[kind].title: heads for kind, heads in by_kind(self.heads).items()}

    def correlations(self) -> dict[str, Pairs]:
        """Over the heads of each kind, over all together, and as the mean over layers."""
        tables = {}
        for over, heads in {**self._groups(), "all heads": self.heads}.items():
            tables[over] = correlations(self.scores, heads)
        tables["within each layer, mean over layers"] = correlations_within_layers(
            self.scores, self.heads
        )
        return tables

    def blocks(self) -> list[Block]:
        maps = {over: [Row(self._maps(heads))] for over, heads in self._groups().items()}
        blocks = [*chosen_from("attention", maps), self._heads_table()]
        for finding in self.by_score.values():
            blocks += finding.blocks
        return [*blocks, *self._correlations(), *self._data()]

    def comparable(self) -> list[Block]:
        """Heads of different models do not correspond, but the heads of a layer as a set do."""
        return [self._layers_table(), *self._correlations()]

    def _maps(self, heads: Sequence[Head]) -> list[Block]:
        """A map for each score that heads of one kind have."""
        layers = range(max(head.layer for head in heads) + 1)
        columns = range(max(head.head for head in heads) + 1)
        cells = []
        for layer in layers:
            cells.append([Head(heads[0].kind, layer, head) for head in columns])
        maps: list[Block] = []
        for name, scores in self._shown().items():
            if scores.keys().isdisjoint(heads):
                continue
            score = HEAD_SCORES[name]
            grid = Grid(
                score.share or name,
                "layer",
                "head",
                [str(layer + 1) for layer in layers],
                [str(head + 1) for head in columns],
                [list(map(scores.get, row)) for row in cells],
                unit="%" if score.percent else "",
                decimals=_decimals(name),
                marks=[list(map(self._letters, row)) for row in cells],
                mark="Letters are roles: "
                + ", ".join(f"{letter} {name}" for name, letter in LETTERS.items()),
                notes=[list(map(self._note, row)) for row in cells],
                low=score.low,
                absent="no value" if set(heads) - set(scores) else "removed",
                about=score.summary,
                drawn=True,
            )
            maps.append(grid)
        return maps

    def _letters(self, head: Head) -> str:
        performed = {function for function, _ in self.roles(head)}
        return "".join(letter for name, letter in LETTERS.items() if name in performed)

    def _note(self, head: Head) -> str:
        if head not in self.heads:
            return "removed"
        notes = [f"{name} {of[head]}" for name, of in self._labels().items() if head in of]
        return "; ".join([*notes, *(label for _, label in self.roles(head))])

    def _heads_table(self) -> Table:
        shown, labels = self._shown(), self._labels()
        rows: Rows = []
        for head in self.heads:
            row: list[Cell] = [str(head), *(scores.get(head) for scores in shown.values())]
            row += [of_heads.get(head) for of_heads in labels.values()]
            rows.append([*row, ", ".join(label for _, label in self.roles(head))])
        columns = ["head", *map(_title, shown), *labels, "roles"]
        decimals = [0, *map(_decimals, shown), *[0] * len(labels), 0]
        return Table(columns, rows, "Scores and roles", decimals, name="heads")

    def _layers_table(self) -> Table:
        """A row for the lowest, the mean and the highest head of each layer."""
        shown = self._shown()
        rows: Rows = []
        for (kind, layer), heads in groupby(self.heads, key=lambda head: head[:2]):
            of_layer = list(heads)
            for summary, value in SUMMARIES.items():
                row: list[Cell] = [f"{kind}.{layer + 1}", summary]
                for scores in shown.values():
                    values = [scores[head] for head in of_layer if head in scores]
                    row.append(value(values) if values else None)
                rows.append(row)
        columns = ["layer", "heads", *map(_title, shown)]
        decimals = [0, 0, *map(_decimals, shown)]
        return Table(columns, rows, "Heads of each layer", decimals, name="layers")

    def _correlations(self) -> list[Block]:
        """Triangles of Spearman's ρ, of which scores that are good if low change the sign."""
        if len(self.scores) < 2:
            return []
        groups: dict[str, list[Block]] = {}
        for over, pairs in self.correlations().items():
            heads = self._groups().get(over, self.heads)
            names = [name for name, of in self.scores.items() if not of.keys().isdisjoint(heads)]
            groups[f"{over} (n = {len(heads)})"] = [_triangle(over, names, pairs)]
        low = " and ".join(name for name in self.scores if HEAD_SCORES[name].low)
        sign = f"; low is good in {low}" if low else ""
        note = Note(f"Rank correlations (Spearman) between scores{sign}.")
        return [note, *chosen_from("over", groups)]

    def _data(self) -> list[Table]:
        """What programs may want to know beside what is shown."""
        roles = []
        for head in self.heads:
            roles += [[str(head), *role] for role in self.roles(head)]
        rhos = []
        for over, pairs in self.correlations().items():
            for scores, (rho, heads, interval) in pairs.items():
                rhos.append([over, *scores, rho, *(interval or (None, None)), heads])
        columns = ["over", "score", "and score", "ρ", "low", "high", "heads"]
        return [
            Table(["head", "function", "role"], roles, name="roles", hidden=True),
            Table(columns, rhos, name="correlations", hidden=True),
        ]


def _title(name: str) -> str:
    score = HEAD_SCORES[name]
    return f"{score.share or name} %" if score.percent else name


def _decimals(name: str) -> int:
    return 1 if HEAD_SCORES[name].percent else 3


def role(function: str, name: str, share: float, threshold: float) -> Roles:
    """A role and its label, if the share of maxima is large enough."""
    return [(function, f"{name} ({100 * share:.0f} %)")] if share >= threshold else []


def missed(role: str, shares: Mapping[Head, float], threshold: float) -> list[Block]:
    """Says if no head has a role, and how much the best one lacks."""
    best = max(shares, key=lambda head: shares[head])
    if shares[best] >= threshold:
        return []
    return [
        Note(
            f"No head is {role}: that needs {100 * threshold:.0f} % of the maxima; {best} has "
            f"{100 * shares[best]:.1f} %."
        )
    ]


def _triangle(over: str, names: Sequence[str], pairs: Pairs) -> Table:
    rows: Rows = []
    for place, score in enumerate(names[1:], 1):
        rhos = [pairs[other, score].rho for other in names[:place]]
        rows.append([score, *rhos, *[" "] * (len(names) - 1 - place)])
    return Table(["", *names[:-1]], rows, name=f"correlations, {over}")
