"""What the page of ``normalign report`` shows of checkpoints and a corpus."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_normalign.alignment import aer
from fairseq_normalign.alignment.aligner import AlignOptions, NormAligner
from fairseq_normalign.alignment.browser import (
    Browser,
    Quality,
    System,
    TextPair,
    View,
    quality_within,
    rounding_note,
    sample_places,
    shares_of,
    system_of_links,
)
from fairseq_normalign.alignment.evidence import every_evidence
from fairseq_normalign.alignment.method_errors import error_table
from fairseq_normalign.alignment.scores import ScoresResult
from fairseq_normalign.alignment.scores import System as ScoredSystem
from fairseq_normalign.alignment.signature import made_with
from fairseq_normalign.attention.methods import method_of
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.cli.checkpoints import Shape, check_alike
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import short_names
from fairseq_normalign.heads.profiling import profile
from fairseq_normalign.host.attention_modules import head_counts
from fairseq_normalign.host.options import ReadyModel, gold, load
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.raw_corpus import corpus
from fairseq_normalign.host.special_tokens import languages_of
from fairseq_normalign.layers.block_survey import BlockOptions, survey_blocks
from fairseq_normalign.layers.categories import DEFAULT
from fairseq_normalign.progress import bar
from fairseq_normalign.results.blocks import Note, Table
from fairseq_normalign.results.page import Included
from fairseq_normalign.text.links import LinkFile, refuse_other_count

SAMPLE = 48  # pairs that tell how many bytes the others will take
CAUTION = 0.92  # of the budget is used, as the others may take a little more


class Material(NamedTuple):
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


def material_of(args: Namespace, name: str, path: str) -> Material:
    """A model and the corpus as it reads it."""
    of_one = Namespace(**{**vars(args), "path": path})
    model = load(of_one)
    (pairs,), total = corpus(of_one, [model])
    first = list(islice(pairs, max(args.max_sentences, args.limit)))
    return Material(name, path, model, first, pairs, total)


class Gatherer:
    """Measures one model after the other.

    Attributes:
        included: what was measured so far, by section.
        advice: what looks wrong with the gold.
        systems: the models, and files of links, as the browser has them.
        texts: the pairs to browse.
        quality: of single heads in the browser.
        measured_on: pairs that heads and blocks are measured on.
        total: pairs of the corpus, if that is known.
        left_out: pairs that are too long for the model, or have an empty side.
    """

    quality: Quality
    total: int | None = None
    measured_on = left_out = 0

    def __init__(self, args: Namespace):
        self.args = args
        self.included: list[Included] = []
        self.advice: list[Note] = []
        self.systems: list[System] = []
        self.texts: list[TextPair] = []

    @property
    def align(self) -> AlignOptions:
        """How soft alignments become links."""
        args = self.args
        return AlignOptions(extract=args.extract, eos=args.eos, batch_tokens=args.max_tokens)

    def add(self, material: Material, budget: int) -> None:
        """Measures a model, whose soft alignments may take so many bytes."""
        self.total = material.total
        pairs = self._read_texts(material)
        openings = self._error_rates(material) if self.args.gold else self._choices(material)
        self._browse(material, pairs, openings, budget)
        if not self.args.measure:
            return
        measured = [pair for pair in material.first[: self.args.limit] if not pair.skipped]
        self.measured_on = len(measured)
        if "heads" in self.args.measure:
            found = profile(material.model, measured, max_tokens=self.align.batch_tokens)
            found.signature = {"checkpoint": material.name, **found.signature}
            self.included.append(Included(material.name, found))
        if {"mixing", "statistics"} & {*self.args.measure}:
            self._blocks(material, measured)

    def _read_texts(self, material: Material) -> list[Pair]:
        """The pairs to be browsed; those of a second model must be the same."""
        most = self.args.max_sentences
        golds = list(islice(gold(self.args), most)) if self.args.gold else []
        texts, pairs = [], []
        for place, pair in enumerate(material.first[:most]):
            if pair.skipped or not (pair.source.text and pair.target.text):
                continue
            of_gold = golds[place] if place < len(golds) else None
            texts.append(TextPair(place + 1, pair.source.text, pair.target.text, of_gold))
            pairs.append(pair)
        if not texts:
            raise InputError("the corpus has no pair with words on both sides: nothing to show")
        if self.texts and self.texts != texts:
            raise InputError(
                f"{material.path}: reads other words than {self.systems[0].name} does; expected "
                "models that read the same text"
            )
        self.texts = texts
        self.left_out = len(material.first[:most]) - len(texts)
        return pairs

    def _error_rates(self, material: Material) -> dict[str, Evidence]:
        """Measures error rates by gold; returns what is shown first of each method."""
        of_gold, methods, options = gold(self.args), self.args.methods, self.align
        with bar(f"{material.name}, error rates", total=material.total) as progress:
            result = error_table(
                material.model,
                chain(material.first, material.rest),
                of_gold,
                methods,
                options=options,
                heads=not self.args.no_heads,
                progress=progress.update,
                refuse_misread=True,
            )
        self.included.append(Included(material.name, result))
        for block in result.blocks():
            if isinstance(block, Note) and block.urgent:
                self.advice.append(block)
        return {method: result.choice(method) for method in methods}

    def _choices(self, material: Material) -> dict[str, Evidence]:
        """What is shown first of each method: chosen without gold."""
        choices = {}
        for method in self.args.methods:
            aligner = NormAligner(*material.model, self.align, method=method)
            decided, _ = aligner.decide_on(material.first)
            choices[method] = decided.decision
        return choices

    def _browse(
        self,
        material: Material,
        pairs: Sequence[Pair],
        openings: dict[str, Evidence],
        budget: int,
    ) -> None:
        aligner = NormAligner(*material.model, self.align)
        heads = not self.args.no_heads
        evidences = every_evidence(aligner.forcing, self.args.methods, heads=heads)
        system = System(material.name, evidences, openings, material.languages)
        if not self.systems:
            places = sample_places(len(pairs), SAMPLE)
            sample = _views(aligner, [pairs[place] for place in places], evidences)
            known = zip([self.texts[place] for place in places], sample, strict=True)
            self.quality = quality_within(int(CAUTION * budget), self.texts, evidences, known)
        self.systems.append(system)
        size = 0
        with bar(f"{material.name}, sentences", total=len(pairs)) as progress:
            views = _views(aligner, pairs, evidences)
            for text, view in zip(self.texts, views, strict=True):
                size += system.add(text, view, self.quality)
                progress.update()
                if size > budget:
                    break

    def _blocks(self, material: Material, pairs: Sequence[Pair]) -> None:
        options = BlockOptions(
            mixing="mixing" in self.args.measure,
            statistics="statistics" in self.args.measure,
            max_tokens=self.align.batch_tokens,
        )
        with bar(f"{material.name}, blocks", total=len(pairs)) as progress:
            survey = survey_blocks(material.model, pairs, options, progress=progress.update)
        made = {"checkpoints": material.name, "sentences": survey.sentences}
        made |= {"categories": DEFAULT, "ranks": options.ranks}
        self.included += [Included(material.name, result) for result in survey.results(made)]

    def add_links(self, paths: Sequence[str]) -> None:
        """Files of links, to browse beside the models; with gold, error rates on all pairs."""
        languages = self.systems[0].languages
        for path, name in zip(paths, short_names(paths), strict=True):
            system = system_of_links(path, name, self.texts, languages, self.total)
            self.systems.append(system)
        if not (self.args.gold and paths):
            return
        of_gold = gold(self.args)
        scores = aer.score(of_gold, [LinkFile(path) for path in paths])
        systems = []
        for path, (_, total, by_pair) in zip(paths, scores, strict=True):
            made = {"gold": Path(of_gold.name).name, **of_gold.read_as(), **made_with(path)}
            systems.append(ScoredSystem(path, made, total, aer.interval(by_pair)))
        self.included.append(Included("files of links", ScoresResult(systems)))

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

    def facts(self) -> list[tuple[str, str]]:
        """Where the pairs come from, how many there are, and what was measured on how many."""
        args, pairs = self.args, self.browser().pairs
        texts = [args.source_file, args.target_file, args.hypotheses]
        named = [Path(path).name for path in texts if path]
        data = Path(args.data.partition(":")[0]).name
        sources = sum(len(pair.source) for pair in pairs)
        targets = sum(len(pair.target) for pair in pairs)
        facts = [
            ("corpus", " and ".join(named) or f"{data}, {args.gen_subset}"),
            ("gold", Path(args.gold).name if args.gold else "none"),
            ("pairs to browse", f"{len(pairs):,}, of {sources:,} and {targets:,} words"),
            ("methods", ", ".join(args.methods)),
        ]
        scored_on = sum(1 for _ in gold(args)) if args.gold else None
        total = scored_on if self.total is None else self.total
        counts = {
            "pairs that heads and blocks are measured on": self.measured_on or None,
            "pairs of the corpus": total,
            "pairs that AER is measured on": scored_on,
            "pairs that cannot be browsed": None if total is None else total - len(pairs),
        }
        facts += [(name, f"{number:,}") for name, number in counts.items() if number is not None]
        return facts


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


def gathered(args: Namespace, budget: int) -> tuple[Gatherer, Table]:
    """All that is measured of the checkpoints, and a table of them.

    Args:
        budget: bytes that all soft alignments together may take.
    """
    # All are read before the first is measured: what cannot be read is refused at once.
    names = short_names(args.path)
    materials = [material_of(args, *model) for model in zip(names, args.path, strict=True)]
    check_alike(names, [Shape("-".join(material.languages), []) for material in materials])
    if args.gold:
        refuse_other_count(gold(args), materials[0].total)
    gatherer = Gatherer(args)
    for material in materials:
        gatherer.add(material, budget // len(materials))
    gatherer.add_links(args.links)
    columns = ["model", "languages", "heads of each layer", "million parameters", "file in MB"]
    return gatherer, Table(columns, list(map(_model_row, materials)), "Models", decimals=1)


def _model_row(material: Material) -> list[Any]:
    model = material.model.forcing.model
    heads: dict[str, list[str]] = {}
    for (kind, _), number in head_counts(model).items():
        heads.setdefault(kind, []).append(str(number))
    shape = "; ".join(f"{kind} {' '.join(numbers)}" for kind, numbers in heads.items())
    parameters = sum(parameter.numel() for parameter in model.parameters())
    size = Path(material.path).stat().st_size / 1e6 if Path(material.path).exists() else None
    direction = "–".join(material.languages)
    return [material.name, direction, shape, parameters / 1e6, size]
