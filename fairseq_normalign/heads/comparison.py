"""Models with more and fewer heads side by side: what they cost and are worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fairseq_normalign.names import KINDS, Head
from fairseq_normalign.options import option
from fairseq_normalign.results.blocks import (
    Block,
    Curve,
    Curves,
    Facts,
    Grid,
    Note,
    Point,
    Rows,
    Table,
)
from fairseq_normalign.results.blocks import Row as Panels
from fairseq_normalign.results.result import Result
from fairseq_normalign.version import __version__

if TYPE_CHECKING:
    from fairseq_normalign.host.pairs import PairReader
    from fairseq_normalign.text.links import GoldFile

TEXT = "translation"  # a heading in --help
SCRATCH = "from scratch"
SHORT_NAMES = ", ".join(f"{kind.short} {kind.title}" for kind in KINDS.values())
LEGEND = (
    f"Heads: {SHORT_NAMES}. Parameters in millions and in MB. Speed: generated tokens per second "
    "of process time, as a multiple of the first model's."
)


@dataclass(frozen=True)
class EvaluateOptions:
    """How models are evaluated.

    Args:
        reader: task → how text is read, e.g. ``partial(PairReader.from_names,
            bpe="sentencepiece", model="spm.model")``.
        gold: links for AER; layer and step are chosen without gold, for each model.
        gold_texts: whose words they link.
        search: fairseq's options of beam search, where they are not to be those of
            ``options.SEARCH``.
        too_long: what becomes of sources that the first model does not take (see
            ``host.lengths.TooLong``).
    """

    scratch: Sequence[str] = option(
        [],
        "CHECKPOINT...  models trained from random initialisation, to compare with those of --path",
        group="pruning",
    )
    limit: int | None = option(
        None, "N  translate the first N sentences (default: all)", group=TEXT
    )
    tokenize: str = option(
        "13a",
        "NAME  sacrebleu's tokeniser for BLEU; none for text that is tokenised",
        group=TEXT,
    )
    lowercase: bool = option(False, "BLEU and chrF ignore case", group=TEXT)
    method: str = option("norms", "NAME  soft method of the AER", group="alignment")
    reader: Callable[[Any], PairReader] | None = None
    gold: GoldFile | None = None
    gold_texts: Sequence[str] = ()
    search: Mapping[str, Any] | None = None
    too_long: str = "fail"
    max_tokens: int = 4000
    device: Any = "cpu"
    dtype: str = "float32"
    overrides: dict | None = None


class Row(NamedTuple):
    """One model of a comparison."""

    name: str
    heads: Sequence[Head]  # not closed by a gate; named as in the model that none was removed from
    parameters: int
    megabytes: float  # of the parameters, without what an optimiser remembers
    scores: dict[str, float]  # BLEU, chrF and, where there is gold, AER; all in percent
    signatures: dict[str, str]  # of each score: everything that changes it
    speed: float  # tokens generated in a second, over those of the first model
    from_scratch: bool = False  # trained so, to compare with the others

    def count(self, kind: str | None = None) -> int:
        """How many heads it has, of one kind of attention or in all."""
        return sum(kind in (None, head.kind) for head in self.heads)


class Comparison(list[Row], Result):
    """Models side by side, a row for each."""

    kind = "pruning"
    title = "Heads left and quality"
    about = "The same model with fewer heads."

    @property
    def signature(self) -> dict[str, object]:  # type: ignore[override]
        """Scores have signatures of their own."""
        return {"checkpoints": "+".join(row.name for row in self), "version": __version__}

    def blocks(self) -> list[Block]:
        """Table 2, and Fig. 7, 9 and 10 of Voita et al. (2019)."""
        curves: list[Block] = [self._against_heads(metric) for metric in self[0].scores]
        if self.varied_kind is None:
            curves.append(self._kinds_against_heads())
        names = [[row.name, str(head)] for row in self for head in row.heads]
        return [
            Panels(curves),
            *self._heads_by_layer(),
            self._table(),
            Note(LEGEND),
            Facts(self._signatures()),
            Table(["model", "head"], names, name="heads", hidden=True),
        ]

    def _table(self) -> Table:
        metrics = list(self[0].scores)
        rows: Rows = []
        for row in self:
            heads = [row.count(kind) for kind in (None, *KINDS)]
            name = f"{row.name}, {SCRATCH}" if row.from_scratch else row.name
            size = [row.parameters / 1e6, row.megabytes]
            rows.append([name, *heads, *size, *row.scores.values(), row.speed])
        columns = ["model", "heads", *(kind.short for kind in KINDS.values())]
        columns += ["million parameters", "MB", *metrics, "speed"]
        decimals = [0] * (2 + len(KINDS)) + [2, 1, *[1] * len(metrics), 2]
        return Table(columns, rows, decimals=decimals, name="models")

    @property
    def varied_kind(self) -> str | None:
        """The one kind of attention that models differ in by their numbers of heads, if any."""
        varied = [kind for kind in KINDS if len({row.count(kind) for row in self}) > 1]
        return varied[0] if len(varied) == 1 else None

    def _against_heads(self, metric: str) -> Curves:
        """A score against heads left: of models as they are, and of those from scratch.

        If models differ in the heads of one kind alone, these are the heads that count.
        """
        kind = self.varied_kind
        ordered = sorted(self, key=lambda row: row.count(kind))
        curves = []
        for name, from_scratch in {"models": False, SCRATCH: True}.items():
            points = []
            for row in ordered:
                if row.from_scratch == from_scratch:
                    points.append(Point(row.count(kind), row.scores[metric], note=row.name))
            if points:
                curves.append(Curve(name, points, dashed=from_scratch))
        return Curves(
            f"{metric} against heads left",
            f"heads of {KINDS[kind].title}" if kind else "heads in all",
            metric,
            curves,
            decimals=1,
            about="lower is better" if metric == "AER" else "",
            drawn=True,
        )

    def _kinds_against_heads(self) -> Curves:
        ordered = sorted((row for row in self if not row.from_scratch), key=Row.count)
        curves = []
        for name, kind in KINDS.items():
            points = [Point(row.count(), row.count(name)) for row in ordered]
            curves.append(Curve(kind.title, points))
        axes = ("Heads by kind of attention", "heads in all", "heads of this kind")
        return Curves(*axes, curves, 0, zero=True, drawn=True)

    def _heads_by_layer(self) -> list[Block]:
        """Numbers of heads: a row for each model, a column for each layer that has any."""
        counts = [Counter(head[:2] for head in row.heads) for row in self]
        order = list(KINDS)
        layers = sorted(set().union(*counts), key=lambda name: (order.index(name[0]), name[1]))
        grid = Grid(
            "Heads by layer",
            "model",
            "attention and layer",
            [row.name for row in self],
            [f"{KINDS[kind].short} {layer + 1}" for kind, layer in layers],
            [[of_row[name] for name in layers] for of_row in counts],
            decimals=0,
            drawn=True,
        )
        return [grid] if layers else []

    def _signatures(self) -> list[tuple[str, str]]:
        """That of each score, or of each model's score where they differ."""
        facts = []
        for metric in self[0].signatures:
            names: dict[str, list[str]] = {}
            for row in self:
                names.setdefault(row.signatures[metric], []).append(row.name)
            for text, of_models in names.items():
                which = f" of {', '.join(of_models)}" if len(names) > 1 else ""
                facts.append((metric + which, text))
        return facts
