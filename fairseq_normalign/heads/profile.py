"""What is known of the heads of a model, and what is shown of it."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fairseq_normalign.heads.correlation import Pairs, correlations, correlations_within_layers
from fairseq_normalign.heads.head_scores import FUNCTIONS, HEAD_SCORES, ProfileOptions
from fairseq_normalign.names import KINDS, Head, by_kind
from fairseq_normalign.results.blocks import (
    Block,
    Cell,
    Grid,
    Note,
    Row,
    Table,
    chosen_from,
    up_to,
)
from fairseq_normalign.results.result import Result

if TYPE_CHECKING:
    from fairseq_normalign.attention.lrp_rules import Contributions
    from fairseq_normalign.heads.syntax import Relation

# The shares that roles are awarded by; they are shown as scores are.
POSITION, RARE = "position share", "rare-token share"
SHARES = {POSITION: HEAD_SCORES["positions"], RARE: HEAD_SCORES["rare"]}
SHOWN = ChainMap(SHARES, HEAD_SCORES)
# Columns of tables for programs.
HIDDEN = {
    "roles": ["head", "function", "role"],
    "steps": ["head", "step of its AER"],
    "patterns": ["head", "pattern", "share %"],
    "rare": ["head", "tokens", "unit", "share %", "moved %"],
    "accuracies": ["head", "relation", "accuracy %"],
    "correlations": ["over", "score", "and score", "ρ", "low", "high", "heads"],
    "relevance": ["position", "source", "source_entropy", "prefix_entropy"],
}
LETTERS = {name: name[0].upper() for name in FUNCTIONS}
SUMMARIES: dict[str, Callable[[Sequence[float]], float]] = {
    "lowest": min,
    "mean": fmean,
    "highest": max,
}
POSITIONS = 10  # of the target, whose source share is shown


class Finding(NamedTuple):
    """What one score says: a number for each head, and more that are fields of the profile.

    Settings are the choices that moved the numbers, for the signature.
    """

    scores: Mapping[Head, float] = {}
    facts: Mapping[str, Any] = {}
    settings: Mapping[str, Any] = {}


class RareInfluence(NamedTuple):
    """How many times the relevance of a word's token the rarest one has (``roles``)."""

    mean: float
    sentences: int


@dataclass
class Profile(Result):
    """Scores and roles of the heads of a model; what was not measured is not there.

    Scores are as they were measured; what is shown of shares is in percent.
    """

    heads: list[Head]
    scores: dict[str, dict[Head, float]] = field(default_factory=dict)
    positions: dict[Head, dict] = field(default_factory=dict)
    rare: dict[Head, dict] = field(default_factory=dict)
    rare_moved: dict[Head, dict] = field(default_factory=dict)  # with some tokens moved
    relations: dict[str, Relation] = field(default_factory=dict)
    accuracies: dict[Head, dict[str, float]] = field(default_factory=dict)  # of each relation
    branching: dict[str, float] = field(default_factory=dict)
    deviation: dict[str, float] = field(default_factory=dict)  # of relevance from 1, by layer
    contributions: Contributions | None = None  # of source and prefix to each target position
    rare_influence: RareInfluence | None = None  # of the rarest source token
    steps: dict[Head, str] = field(default_factory=dict)  # the decoder's step of each AER
    options: ProfileOptions = field(default_factory=ProfileOptions)
    signature: dict[str, Any] = field(default_factory=dict)  # how all of it was measured

    kind = "heads"
    title = "Attention heads"
    about = "Every map shows one score of all heads: a row for each layer, a column for each head."

    def add(self, name: str, finding: Finding) -> None:
        """Takes in what a score says."""
        scores = {head: finding.scores[head] for head in self.heads if head in finding.scores}
        if scores:
            self.scores[name] = scores
        for fact, value in finding.facts.items():
            setattr(self, fact, value)
        self.signature.update(finding.settings)

    def position(self, head: Head) -> str:
        """Where most maxima are, relative to the query: ``-1``; nothing if not measured."""
        offset = self.positions.get(head, {}).get("offset", "")
        return f"{offset:+d}" if offset else str(offset)

    def roles(self, head: Head) -> list[tuple[str, str]]:
        """Functions and labels such as ``-1 (97 %)``, ``rare (55 %)`` or ``nsubj→head 62/35``.

        The last one has accuracy and baseline in %.
        """
        options = self.options
        shares = {}
        if head in self.positions:
            place = self.positions[head]
            shares["positional", self.position(head)] = place["share"]
            shares["last", "last"] = place["patterns"].get("last", 0)
        roles = []
        for (function, name), share in shares.items():
            if share >= options.positional_threshold:
                roles.append((function, f"{name} ({100 * share:.0f} %)"))
        for name, accuracy in self.accuracies.get(head, {}).items():
            relation = self.relations[name]
            if relation.is_found(accuracy, options.syntactic_margin):
                label = f"{name} {100 * accuracy:.0f}/{100 * (relation.baseline or 0):.0f}"
                roles.append(("syntactic", label))
        if head in self.rare and _rare_share(self.rare[head]) >= options.rare_threshold:
            roles.append(("rare", f"rare ({100 * _rare_share(self.rare[head]):.0f} %)"))
        return roles

    def shown_scores(self) -> dict[str, dict[Head, float]]:
        """All scores and the shares that roles are awarded by, shares in percent."""
        shares = {
            POSITION: {head: place["share"] for head, place in self.positions.items()},
            RARE: {head: _rare_share(of_head) for head, of_head in self.rare.items()},
        }
        shown = {}
        for name, by_head in {**self.scores, **shares}.items():
            factor = 100 if SHOWN[name].percent else 1
            if by_head:
                shown[name] = {head: factor * value for head, value in by_head.items()}
        return shown

    def correlations(self) -> dict[str, Pairs]:
        """Over the heads of each kind, over all together, and as the mean over layers."""
        tables = {}
        for kind, heads in by_kind(self.heads).items():
            tables[KINDS[kind].title] = correlations(self.scores, heads)
        tables["all heads"] = correlations(self.scores, self.heads)
        tables["mean of all layers"] = correlations_within_layers(self.scores, self.heads)
        return tables

    def blocks(self) -> list[Block]:
        maps: dict[str, list[Block]] = {}
        for kind, heads in by_kind(self.heads).items():
            maps[KINDS[kind].title] = [Row(self._maps(heads))]
        return [
            *chosen_from("attention", maps),
            self._heads_table(),
            *self._relations(),
            *map(Note, self._notes()),
            *self._correlations(),
            *self._data(),
        ]

    def comparable(self) -> list[Block]:
        """Heads of different models do not correspond, but the heads of a layer as a set do."""
        return [self._layers_table(), *self._correlations()]

    def _maps(self, heads: Sequence[Head]) -> list[Block]:
        """A map for each score that heads of one kind have."""
        layers = up_to(max(head.layer for head in heads))
        columns = up_to(max(head.head for head in heads))
        cells = []
        for layer in layers:
            cells.append([Head(heads[0].kind, layer, head) for head in columns])
        maps: list[Block] = []
        for name, scores in self.shown_scores().items():
            if scores.keys().isdisjoint(heads):
                continue
            score = SHOWN[name]
            grid = Grid(
                name,
                "layer",
                "head",
                [str(layer + 1) for layer in layers],
                [str(head + 1) for head in columns],
                [list(map(scores.get, row)) for row in cells],
                unit="%" if score.percent else "",
                decimals=_decimals(name),
                marks=[list(map(self._letters, row)) for row in cells],
                mark=", ".join(f"{letter}: {name}" for name, letter in LETTERS.items()),
                notes=[list(map(self._note, row)) for row in cells],
                numbers=True,
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
        position = f"position {self.position(head)}" if head in self.positions else ""
        return "; ".join(filter(None, [position, *(label for _, label in self.roles(head))]))

    def _heads_table(self) -> Table:
        shown = self.shown_scores()
        columns = ["head", *map(_title, shown), *["position"] * bool(self.positions), "roles"]
        rows: list[list[Cell]] = []
        for head in self.heads:
            row: list[Cell] = [str(head), *(scores.get(head) for scores in shown.values())]
            row += [self.position(head)] if self.positions else []
            rows.append([*row, ", ".join(label for _, label in self.roles(head))])
        decimals = [0, *map(_decimals, shown), 0, 0]
        return Table(columns, rows, "Scores and roles", decimals, name="heads")

    def _layers_table(self) -> Table:
        """A row for the lowest, the mean and the highest head of each layer."""
        shown = self.shown_scores()
        rows: list[list[Cell]] = []
        for kind, heads in by_kind(self.heads).items():
            for layer in sorted({head.layer for head in heads}):
                of_layer = [head for head in heads if head.layer == layer]
                for summary, value in SUMMARIES.items():
                    row: list[Cell] = [f"{kind}.{layer + 1}", summary]
                    for scores in shown.values():
                        values = [scores[head] for head in of_layer if head in scores]
                        row.append(value(values) if values else None)
                    rows.append(row)
        columns = ["layer", "heads", *map(_title, shown)]
        decimals = [0, 0, *map(_decimals, shown)]
        return Table(columns, rows, "Heads of each layer", decimals, name="layers")

    def _relations(self) -> list[Block]:
        """Each relation and direction: cases, the baseline, and the best head."""
        if not self.relations:
            return []
        rows: list[list[Cell]] = []
        for name, (cases, offset, baseline) in self.relations.items():
            best: list[Cell] = [None] * 4
            if baseline is not None:
                found = {head: own[name] for head, own in self.accuracies.items()}
                head = max(found, key=lambda head: found[head])
                best = [100 * baseline, f"{offset:+d}", 100 * found[head], str(head)]
            rows.append([name, cases, *best])
        columns = ["relation", "cases", "baseline %", "at", "accuracy %", "best head"]
        trees = ", ".join(f"{name} {100 * uas:.1f}" for name, uas in self.branching.items())
        return [
            Table(columns, rows, "Syntactic relations", 1, name="relations"),
            Note(f"UAS in % of trees without attention: {trees}."),
        ]

    def _notes(self) -> Iterator[str]:
        options = self.options
        if self.positions:
            yield from self._missed("positional", POSITION, options.positional_threshold)
        if self.rare:
            yield from self._missed("rare", RARE, options.rare_threshold)
            yield self._rare_note()
        if self.contributions is not None:
            yield from _relevance_notes(self.deviation, self.contributions)
        if self.rare_influence is not None:
            mean, sentences = self.rare_influence
            yield (
                f"Relevance of the rarest source token: {mean:.2f} times that of all, mean over "
                f"{sentences} sentences."
            )

    def _missed(self, role: str, name: str, threshold: float) -> Iterator[str]:
        """Says if no head has a role, and how much the best one lacks."""
        shares = self.shown_scores()[name]
        best = max(shares, key=lambda head: shares[head])
        if shares[best] < 100 * threshold:
            yield (
                f"No head is {role}: that needs {100 * threshold:.0f} % of the maxima; {best} has "
                f"{shares[best]:.1f} %."
            )

    def _rare_note(self) -> str:
        """The head that looks at rare tokens most, and how much is left if tokens are moved."""
        best = max(self.rare, key=lambda head: _rare_share(self.rare[head]))
        parts = []
        for rank, shares in self.rare[best].items():
            moved = self.rare_moved[best][rank]
            parts.append(
                f"{100 * shares['tokens']:.1f} % ({100 * moved['tokens']:.1f} % with a tenth of "
                f"the tokens moved, {100 * shares['chance']:.1f} % by chance) on the {rank}"
            )
        return f"Rare tokens: {best} has most maxima there: {'; '.join(parts)}."

    def _correlations(self) -> list[Block]:
        """Triangles of Spearman's ρ, of which scores that are good if low change the sign."""
        if len(self.scores) < 2:
            return []
        groups: dict[str, list[Block]] = {}
        kinds = {KINDS[kind].title: heads for kind, heads in by_kind(self.heads).items()}
        for over, pairs in self.correlations().items():
            heads = kinds.get(over, self.heads)
            names = [name for name, of in self.scores.items() if not of.keys().isdisjoint(heads)]
            groups[f"{over} (n = {len(heads)})"] = [_triangle(over, names, pairs)]
        low = [name for name in self.scores if SHOWN[name].low]
        sign = f"; low is good in {' and '.join(low)}" if low else ""
        note = Note(f"Rank correlations (Spearman) between scores{sign}.")
        return [note, *chosen_from("over", groups)]

    def _data(self) -> list[Table]:
        """What programs may want to know beside what is shown."""
        rows: dict[str, list[list[Cell]]] = {name: [] for name in HIDDEN}
        for head in self.heads:
            name = str(head)
            rows["roles"] += [[name, *role] for role in self.roles(head)]
            for pattern, share in self.positions.get(head, {}).get("patterns", {}).items():
                rows["patterns"].append([name, pattern, 100 * share])
            for rank, shares in self.rare.get(head, {}).items():
                for unit, share in shares.items():
                    moved = self.rare_moved[head][rank][unit]
                    rows["rare"].append([name, rank, unit, 100 * share, 100 * moved])
            for relation, share in self.accuracies.get(head, {}).items():
                rows["accuracies"].append([name, relation, 100 * share])
        rows["steps"] = [[str(head), step] for head, step in self.steps.items()]
        for over, pairs in self.correlations().items():
            for scores, (rho, heads, interval) in pairs.items():
                row = [over, *scores, rho, *(interval or (None, None)), heads]
                rows["correlations"].append(row)
        if self.contributions is None:
            del rows["relevance"]
        else:
            by_position = np.transpose(self.contributions).tolist()
            rows["relevance"] = [[place, *values] for place, values in enumerate(by_position, 1)]
        return [Table(HIDDEN[name], own, name=name, hidden=True) for name, own in rows.items()]


def _title(name: str) -> str:
    return f"{name} %" if SHOWN[name].percent else name


def _decimals(name: str) -> int:
    return 1 if SHOWN[name].percent else 3


def _rare_share(shares: Mapping[str, Mapping[str, float]]) -> float:
    return shares["rarest"]["tokens"]


def _triangle(over: str, names: Sequence[str], pairs: Pairs) -> Table:
    rows: list[list[Cell]] = []
    for place, score in enumerate(names[1:], 1):
        rhos = [pairs[other, score].rho for other in names[:place]]
        rows.append([score, *rhos, *[" "] * (len(names) - 1 - place)])
    return Table(["", *names[:-1]], rows, name=f"correlations, {over}")


def _relevance_notes(deviation: Mapping[str, float], contributions: Contributions) -> Iterator[str]:
    """How far relevance is conserved, and where it ends: in the source or in the prefix."""
    distances = ", ".join(f"{cut} {distance:.0e}" for cut, distance in deviation.items())
    shares, source, prefix = contributions
    shown = [f"{share:.2f}" for share in shares[:POSITIONS]]
    more = ["…"] if len(shares) > POSITIONS else []
    what = "target positions 1, 2, …" if len(shares) > 1 else "all target positions together"
    yield f"Relevance: largest distance of a total from 1: {distances}."
    yield f"Share of the source in the relevance of {what}: {' '.join([*shown, *more])}."
    yield (
        f"Entropy of the relevance of source tokens {source.mean():.2f}, of prefix tokens "
        f"{prefix.mean():.2f} nats."
    )
