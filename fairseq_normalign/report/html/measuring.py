"""What the page shows of checkpoints and a corpus: measured here, shown as other commands' JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from fairseq_normalign.alignment import aer
from fairseq_normalign.alignment.aligner import AlignOptions, NormAligner
from fairseq_normalign.alignment.error_table import ErrorTable
from fairseq_normalign.alignment.evidence import every_evidence
from fairseq_normalign.alignment.method_errors import error_table
from fairseq_normalign.alignment.scores import ScoresResult
from fairseq_normalign.alignment.scores import System as ScoredSystem
from fairseq_normalign.alignment.signature import made_with
from fairseq_normalign.attention.methods import method_of
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.profiling import profile
from fairseq_normalign.host.options import ReadyModel
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.special_tokens import languages_of
from fairseq_normalign.layers.block_survey import BlockOptions, survey_blocks
from fairseq_normalign.layers.mixing import MixingResult
from fairseq_normalign.layers.statistics import StatisticsResult
from fairseq_normalign.progress import bar
from fairseq_normalign.report.html.browser import (
    Browser,
    System,
    TextPair,
    View,
    quality_within,
    rounding_note,
    sample_places,
)
from fairseq_normalign.report.html.included import Included
from fairseq_normalign.report.html.link_files import system_of_links
from fairseq_normalign.report.html.packing import shares_of
from fairseq_normalign.results.blocks import Note
from fairseq_normalign.text.links import Gold, GoldFile, LinkFile
from fairseq_normalign.version import __version__

SAMPLE = 48  # pairs that tell how many bytes the others will take
CAUTION = 0.92  # of the budget is used, as the others may take a little more


@dataclass(frozen=True)
class ReportOptions:
    """What is measured, and how much of it is shown.

    Args:
        methods: soft methods of the browser and of the table of error rates.
        heads: single heads are in the browser, too.
        parts: what is measured beside alignments: ``heads``, ``mixing``, ``statistics``.
        pairs: how many pairs can be browsed at most.
        limit: how many pairs heads and blocks are measured on.
        budget: bytes that all soft alignments together may take.
        align: how soft alignments become links.
    """

    methods: Sequence[str]
    heads: bool
    parts: Sequence[str]
    pairs: int
    limit: int
    budget: int
    align: AlignOptions


@dataclass
class Material:
    """A model, the pairs as it reads them, and the rest of the corpus."""

    name: str
    path: str
    model: ReadyModel
    first: list[Pair]
    rest: Iterator[Pair]
    total: int | None

    @property
    def languages(self) -> tuple[str, str]:
        source, target = languages_of(self.model.reader.task)
        return source or "source", target or "target"


@dataclass
class Gatherer:
    """Measures one model after the other.

    Attributes:
        included: what was measured so far, by section.
        advice: what looks wrong with the gold.
        systems: the models, and files of links, as the browser has them.
        measured_on: pairs that heads and blocks are measured on.
        total: pairs of the corpus, if that is known.
        scored_on: pairs that error rates are measured on.
        left_out: pairs that are too long for the model, or have an empty side.
    """

    options: ReportOptions
    gold: Callable[[], GoldFile] | None = None

    def __post_init__(self) -> None:
        self.included: list[Included] = []
        self.systems: list[System] = []
        self.texts: list[TextPair] = []
        self.advice: list[Note] = []
        self.quality: Any = None
        self.measured_on = 0
        self.total: int | None = None
        self.scored_on = 0
        self.left_out = 0

    def add(self, material: Material, *, systems: int) -> None:
        """Measures a model, one of so many."""
        self._check_direction(material)
        self.total = material.total
        golds = None
        if self.gold is not None:
            golds = list(islice(self.gold(), self.options.pairs))
        texts, pairs = self._texts(material, golds)
        openings = self._alignments(material)
        self._browse(material, texts, pairs, openings, self.options.budget // systems)
        self._parts(material)

    def add_links(self, path: str, name: str, total: int | None) -> None:
        """Lets the links of a file be browsed beside what the models make of the same pairs."""
        languages = self.systems[0].languages
        self.systems.append(system_of_links(path, name, self.texts, languages, total))

    def score_links(self, paths: Sequence[str]) -> None:
        """Measures the error rates of files of links, on all pairs, if there is gold."""
        if self.gold is None or not paths:
            return
        gold = self.gold()
        scores = aer.score(gold, [LinkFile(path) for path in paths], keep=True)
        systems = []
        for path, (_, total, by_pair) in zip(paths, scores, strict=True):
            made = {"gold": Path(gold.name).name, **gold.read_as(), **made_with(path)}
            systems.append(ScoredSystem(path, made, total, aer.interval(by_pair)))
        self.included.append(Included("files of links", ScoresResult(systems)))

    def facts(self) -> list[tuple[str, str]]:
        """How many pairs there are, on how many AER is measured, and how many are not browsed."""
        facts = []
        total = self.total if self.total is not None else self.scored_on or None
        if total is not None:
            facts.append(("pairs of the corpus", f"{total:,}"))
        if self.scored_on:
            facts.append(("pairs that AER is measured on", f"{self.scored_on:,}"))
        if total is not None:
            rest = total - len(self.browser().pairs)
            facts.append(("pairs that cannot be browsed", f"{rest:,}"))
        return facts

    def _check_direction(self, material: Material) -> None:
        """Refuses a model that translates from or to another language than the first one."""
        if not self.systems:
            return
        first, other = self.systems[0], material.languages
        if other != first.languages:
            raise InputError(
                f"{first.name}: translates {'–'.join(first.languages)}, {material.name} "
                f"{'–'.join(other)}; expected models of one direction"
            )

    def _texts(
        self, material: Material, golds: Sequence[Gold] | None
    ) -> tuple[list[TextPair], list[Pair]]:
        """The pairs to be browsed; those of a second model must be the same."""
        texts, pairs = [], []
        for place, pair in enumerate(material.first[: self.options.pairs]):
            if pair.skipped or not (pair.source.text and pair.target.text):
                continue
            gold = golds[place] if golds is not None and place < len(golds) else None
            texts.append(TextPair(place + 1, pair.source.text, pair.target.text, gold))
            pairs.append(pair)
        if not texts:
            raise InputError("the corpus has no pair with words on both sides: nothing to show")
        if self.texts and self.texts != texts:
            raise InputError(
                f"{material.path}: reads other words than {self.systems[0].name} does; expected "
                "models that read the same text"
            )
        self.texts = texts
        self.left_out = len(material.first[: self.options.pairs]) - len(texts)
        return texts, pairs

    def _alignments(self, material: Material) -> dict[str, Evidence]:
        """What is shown first of each method: chosen without gold; with gold, error rates too."""
        if self.gold is None:
            return self._choices(material)
        gold, methods = self.gold(), self.options.methods
        with bar(f"{material.name}, error rates", total=material.total) as progress:
            table = error_table(
                material.model,
                self._counted(chain(material.first, material.rest)),
                gold,
                methods,
                options=self.options.align,
                heads=self.options.heads,
                progress=progress.update,
                refuse_misread=True,
            )
        result = replace(table, signature=self._signature(gold, table))
        self.included.append(Included(material.name, result))
        self.advice += [
            block for block in result.blocks() if isinstance(block, Note) and block.urgent
        ]
        return {method: table.choice(method) for method in methods}

    def _counted(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """The pairs, counted as they are read."""
        self.scored_on = 0
        for pair in pairs:
            self.scored_on += 1
            yield pair

    def _signature(self, gold: GoldFile, table: ErrorTable) -> dict[str, Any]:
        options = self.options.align
        return {
            "gold": Path(gold.name).name,
            **gold.read_as(),
            "eos": options.eos,
            "merge": str(options.merges),
            "extract": ",".join(dict.fromkeys(table.rules.values())),
            "version": __version__,
        }

    def _choices(self, material: Material) -> dict[str, Evidence]:
        choices = {}
        for method in self.options.methods:
            aligner = NormAligner(*material.model, self.options.align, method=method)
            decided, _ = aligner.decide_on(material.first)
            choices[method] = decided.decision
        return choices

    def _browse(
        self,
        material: Material,
        texts: Sequence[TextPair],
        pairs: Sequence[Pair],
        openings: dict[str, Evidence],
        budget: int,
    ) -> None:
        aligner = NormAligner(*material.model, self.options.align)
        evidences = every_evidence(aligner.forcing, self.options.methods, heads=self.options.heads)
        system = System(material.name, evidences, openings, material.languages)
        self.systems.append(system)
        if self.quality is None:
            places = sample_places(len(pairs), SAMPLE)
            sample = _views(aligner, [pairs[place] for place in places], evidences)
            known = zip([texts[place] for place in places], sample, strict=True)
            self.quality = quality_within(int(CAUTION * budget), texts, evidences, known)
        size = 0
        with bar(f"{material.name}, sentences", total=len(pairs)) as progress:
            views = _views(aligner, pairs, evidences)
            for text, view in zip(texts, views, strict=True):
                size += system.add(text, view, self.quality)
                progress.update()
                if size > budget:
                    break

    def _parts(self, material: Material) -> None:
        pairs = [pair for pair in material.first[: self.options.limit] if not pair.skipped]
        self.measured_on = len(pairs)
        if "heads" in self.options.parts:
            measured = profile(material.model, pairs, max_tokens=self.options.align.batch_tokens)
            measured.signature = {"checkpoint": material.name, **measured.signature}
            self.included.append(Included(material.name, measured))
        if {"mixing", "statistics"} & set(self.options.parts):
            self._blocks(material, pairs)

    def _blocks(self, material: Material, pairs: Sequence[Pair]) -> None:
        parts = self.options.parts
        options = BlockOptions(
            mixing="mixing" in parts,
            statistics="statistics" in parts,
            max_tokens=self.options.align.batch_tokens,
        )
        with bar(f"{material.name}, blocks", total=len(pairs)) as progress:
            survey = survey_blocks(material.model, pairs, options, progress=progress.update)
        signature = {
            "checkpoints": material.name,
            "sentences": survey.sentences,
            "categories": "pieces",
            "ranks": options.ranks,
            "version": __version__,
        }
        if options.mixing:
            mixing = MixingResult(survey.mixing, signature)
            self.included.append(Included(material.name, mixing))
        if options.statistics:
            statistics = StatisticsResult(survey.statistics, signature)
            self.included.append(Included(material.name, statistics))

    def browser(self) -> Browser:
        """All models side by side, with as many pairs as all of them have."""
        fitting = min(len(system.packed) for system in self.systems)
        notes = [rounding_note(self.quality)]
        if self.left_out:
            notes.append(f"Pairs left out, too long or with an empty side: {self.left_out}.")
        if fitting < len(self.texts):
            notes.append(
                f"The first {fitting} of {len(self.texts)} pairs are shown: more would make the "
                "file larger than --max-megabytes allows."
            )
        return Browser(self.texts[:fitting], self.systems, self.quality, notes)


def _views(
    aligner: NormAligner, pairs: Sequence[Pair], evidences: Sequence[Evidence]
) -> Iterator[View]:
    for softs in aligner.evidences_many(pairs, evidences):
        shares, links = [], []
        for evidence, soft in zip(evidences, softs, strict=True):
            null = aligner.options.null and method_of(evidence.method).eos
            shares.append(shares_of(soft, null=null))
            links.append(aligner.links_of(soft, evidence.method))
        yield View(shares, links)
