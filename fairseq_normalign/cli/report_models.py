"""What ``normalign report`` shows of checkpoints and a corpus."""

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
    System,
    TextPair,
    system_of_links,
)
from fairseq_normalign.alignment.error_table import ErrorTable, error_table, layer_choices
from fairseq_normalign.alignment.evidence import every_evidence
from fairseq_normalign.alignment.scores import ScoresResult
from fairseq_normalign.alignment.scores import System as ScoredSystem
from fairseq_normalign.alignment.signature import made_with
from fairseq_normalign.attention.extract import shares_of
from fairseq_normalign.attention.methods import method_of
from fairseq_normalign.cli.checks import check_directions
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
from fairseq_normalign.results.blocks import Table
from fairseq_normalign.results.page import Included, Section, overview
from fairseq_normalign.results.result import Result
from fairseq_normalign.text.links import LinkFile, refuse_other_count

MODEL_COLUMNS = ["model", "languages", "heads of each layer", "million parameters"]


class Material(NamedTuple):
    """A model, the pairs as it reads them, and the rest of the corpus."""

    name: str
    path: str
    model: ReadyModel
    first: list[Pair]
    rest: Iterator[Pair]
    total: int | None
    languages: tuple[str, str]


def gathered(
    args: Namespace, others: Sequence[Included], budget: int
) -> tuple[Section, list[Included], Browser]:
    """What is said of the checkpoints, all that is measured, and pairs to browse.

    Args:
        others: what was measured before.
        budget: bytes that all soft alignments together may take.
    """
    # All are read before the first is measured: what cannot be read is refused at once.
    names = short_names(args.path)
    materials = [material_of(args, *model) for model in zip(names, args.path, strict=True)]
    check_directions(names, ["-".join(material.languages) for material in materials])
    total = materials[0].total
    if args.gold:
        refuse_other_count(gold(args), total)
    texts = texts_of(args, materials[0])
    included, systems = [], []
    for material in materials:
        if texts_of(args, material) != texts:
            raise InputError(f"{material.path}: splits text into other words than {names[0]}")
        table = error_rates(args, material) if args.gold else None
        systems.append(browsed(args, material, texts, table, budget // len(materials)))
        results = [table, *profiles(args, material)]
        included += [(material.name, result) for result in results if result is not None]
    for path, name in zip(args.links, short_names(args.links), strict=True):
        systems.append(system_of_links(path, name, texts, materials[0].languages, total))
    if args.gold and args.links:
        included.append(("files of links", scores_of_links(args)))
    browser = fitting(args, texts, systems, len(materials[0].first))
    models = Table(MODEL_COLUMNS, list(map(_model_row, materials)), "Models", decimals=1)
    included += others
    return overview(facts_of(args, browser, total), models, included), included, browser


def material_of(args: Namespace, name: str, path: str) -> Material:
    """A model and the corpus as it reads it."""
    of_one = Namespace(**{**vars(args), "path": path})
    model = load(of_one)
    (pairs,), total = corpus(of_one, [model])
    first = list(islice(pairs, max(args.max_sentences, args.limit)))
    source, target = languages_of(model.reader.task)
    languages = source or "source", target or "target"
    return Material(name, path, model, first, pairs, total, languages)


def texts_of(args: Namespace, material: Material) -> list[TextPair]:
    """The pairs to be browsed: with words on both sides, and not too long."""
    most = args.max_sentences
    golds = list(islice(gold(args), most)) if args.gold else []
    texts = []
    for place, pair in enumerate(material.first[:most]):
        if not pair.skipped and pair.source.text and pair.target.text:
            of_gold = golds[place] if place < len(golds) else None
            texts.append(TextPair(place + 1, pair.source.text, pair.target.text, of_gold))
    if not texts:
        raise InputError("the corpus has no pair with words on both sides: nothing to show")
    return texts


def align_options(args: Namespace) -> AlignOptions:
    """How soft alignments become links."""
    return AlignOptions(extract=args.extract, eos=args.eos, batch_tokens=args.max_tokens)


def error_rates(args: Namespace, material: Material) -> ErrorTable:
    """Error rates of all pairs, by gold."""
    with bar(f"{material.name}, error rates", total=material.total) as progress:
        return error_table(
            material.model,
            chain(material.first, material.rest),
            gold(args),
            args.method,
            options=align_options(args),
            heads=not args.no_heads,
            progress=progress.update,
            refuse_misread=True,
        )


def browsed(
    args: Namespace,
    material: Material,
    texts: Sequence[TextPair],
    table: ErrorTable | None,
    budget: int,
) -> System:
    """The soft alignments of a model, as many pairs as fit into so many bytes."""
    aligner = NormAligner(*material.model, align_options(args))
    chosen = table.chosen if table else layer_choices(aligner, args.method, material.first)
    openings = [of_steps[0] for of_steps in chosen.values()]
    evidences = every_evidence(aligner.forcing, args.method, heads=not args.no_heads)
    system = System(material.name, evidences, openings, material.languages)
    pairs = [material.first[text.line - 1] for text in texts]
    size = 0
    with bar(f"{material.name}, sentences", total=len(pairs)) as progress:
        for text, softs in zip(texts, aligner.evidences_many(pairs, evidences), strict=True):
            shares, links = [], []
            for evidence, soft in zip(evidences, softs, strict=True):
                null = aligner.options.null and method_of(evidence.method).eos
                shares.append(shares_of(soft, null=null))
                links.append(aligner.links(soft, evidence.method))
            size += system.add(text, shares, links)
            progress.update()
            if size > budget:
                break
    return system


def profiles(args: Namespace, material: Material) -> list[Result]:
    """What is measured of heads and blocks."""
    pairs = [pair for pair in material.first[: args.limit] if not pair.skipped]
    results: list[Result] = []
    if "heads" in args.measure:
        found = profile(material.model, pairs, max_tokens=args.max_tokens)
        found.signature = {"checkpoint": material.name, **found.signature}
        results.append(found)
    if {"mixing", "statistics"} & {*args.measure}:
        options = BlockOptions(
            mixing="mixing" in args.measure,
            statistics="statistics" in args.measure,
            max_tokens=args.max_tokens,
        )
        with bar(f"{material.name}, blocks", total=len(pairs)) as progress:
            survey = survey_blocks(material.model, pairs, options, progress=progress.update)
        made = {"checkpoints": material.name, "sentences": survey.sentences}
        results += survey.results({**made, "categories": DEFAULT, "ranks": options.ranks})
    return results


def scores_of_links(args: Namespace) -> ScoresResult:
    """Error rates of files of links, on all pairs."""
    of_gold = gold(args)
    scores = aer.score(of_gold, [LinkFile(path) for path in args.links])
    systems = []
    for path, by_pair in zip(args.links, scores, strict=True):
        made = {"gold": Path(of_gold.name).name, **of_gold.read_as(), **made_with(path)}
        total = aer.Counts.total(by_pair)
        systems.append(ScoredSystem(path, made, total, aer.interval(by_pair)))
    return ScoresResult(systems)


def fitting(
    args: Namespace, texts: Sequence[TextPair], systems: Sequence[System], read: int
) -> Browser:
    """All models side by side, with as many pairs as all of them have."""
    fit = min(len(system.packed) for system in systems)
    notes = []
    left_out = min(read, args.max_sentences) - len(texts)
    if left_out:
        notes.append(f"Pairs left out, too long or with an empty side: {left_out}.")
    if fit < len(texts):
        notes.append(
            f"The first {fit} of {len(texts)} pairs are shown: more would make the file larger "
            "than --max-megabytes allows."
        )
    return Browser(texts[:fit], systems, notes)


def facts_of(args: Namespace, browser: Browser, total: int | None) -> list[tuple[str, str]]:
    """Where the pairs come from, and how many there are."""
    texts = [args.source_file, args.target_file, args.hypotheses]
    named = [Path(path).name for path in texts if path]
    data = Path(args.data.partition(":")[0]).name
    sources = sum(len(pair.source) for pair in browser.pairs)
    targets = sum(len(pair.target) for pair in browser.pairs)
    facts = [("corpus", " and ".join(named) or f"{data}, {args.gen_subset}")]
    if total is not None:
        facts.append(("pairs of the corpus", f"{total:,}"))
    return [
        *facts,
        ("gold", Path(args.gold).name if args.gold else "none"),
        ("pairs to browse", f"{len(browser.pairs):,}, of {sources:,} and {targets:,} words"),
        ("methods", ", ".join(args.method)),
    ]


def _model_row(material: Material) -> list[Any]:
    model = material.model.forcing.model
    heads: dict[str, str] = {}
    for (kind, _), number in head_counts(model).items():
        heads[kind] = f"{heads.get(kind, kind)} {number}"
    shape = "; ".join(heads.values())
    parameters = sum(parameter.numel() for parameter in model.parameters())
    direction = "–".join(material.languages)
    return [material.name, direction, shape, parameters / 1e6]
