"""What models cost and are worth, side by side: heads, size, BLEU, chrF, AER, speed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

import torch
from torch import nn

from fairseq_normalign.alignment.aer import Counts, count, signature
from fairseq_normalign.alignment.aligner import AlignOptions, NormAligner
from fairseq_normalign.alignment.link_doctor import warn_of_misread_gold
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import short_names
from fairseq_normalign.heads.comparison import Comparison, Row
from fairseq_normalign.heads.translation import (
    Texts,
    read_corpus,
    side_by_side,
    translation_metrics,
    transposed,
)
from fairseq_normalign.host.attention_modules import attentions, gate_values, head_numbers
from fairseq_normalign.host.checkpoint import load_single
from fairseq_normalign.host.lengths import fitted, limits_of
from fairseq_normalign.host.pairs import Pair, PairReader, text_pairs
from fairseq_normalign.host.special_tokens import task_options
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.host.translate import Translator, check_translates
from fairseq_normalign.names import Head
from fairseq_normalign.text.links import GoldFile, Link, read_together
from fairseq_normalign.text.words import TextFile


class GoldTexts(NamedTuple):
    """Gold links and the texts whose words they link."""

    gold: GoldFile
    source: str
    target: str


def compare(
    paths: Sequence[str],
    data: str,
    corpus: Texts | str,
    *,
    scratch: Sequence[str] = (),
    reader: Callable[[Any], PairReader] = PairReader,
    gold: GoldTexts | None = None,
    method: str = "norms",
    search: Mapping[str, Any] | None = None,
    tokenize: str = "13a",
    lowercase: bool = False,
    limit: int | None = None,
    too_long: str = "fail",
    max_tokens: int = 4000,
    device: str | torch.device = "cpu",
    dtype: str = "float32",
    overrides: dict | None = None,
) -> Comparison:
    """Evaluates models that share dictionaries, one row for each.

    Args:
        paths: the checkpoints.
        data: the directory with ``dict.*.txt``.
        corpus: what to translate: text files, or the name of a binarised subset of ``data``.
        scratch: checkpoints with the heads of others among ``paths`` that were trained from random
            initialisation, to stand beside those.
        reader: task → how text is read, e.g. ``partial(PairReader.from_names,
            bpe="sentencepiece", model="spm.model")``.
        gold: links and texts for AER; layer and step are chosen without gold, for each model.
        method: what AER is of, a name in ``methods.METHODS``.
        search: fairseq's options of beam search, where they are not to be those of
            ``host.search.SEARCH``.
        tokenize: sacrebleu's tokeniser for BLEU; ``none`` for text that is tokenised.
        lowercase: whether BLEU and chrF ignore case.
        limit: how many sentences to translate, from the first on; all by default.
        too_long: what becomes of sources that the first model does not take (see
            ``host.lengths.fit_together``).
    """
    metrics = translation_metrics(tokenize, lowercase=lowercase)
    every_path = [*paths, *scratch]
    loaded = [_load(path, data, reader, overrides, device, dtype) for path in every_path]
    models = [model for model, _ in loaded]
    readers = [own_reader for _, own_reader in loaded]
    _check_alike(every_path, readers)
    _check_heads(every_path, models, len(paths))
    pairs, references = read_corpus(corpus, readers[0], limit=limit)
    limits = limits_of(models[0])._replace(target=None)
    pairs = fitted(pairs, limits, too_long)
    # Alignment comes first: beam search leaves attention set up for beams.
    aers = aer_scores(models, readers, gold, method=method, max_tokens=max_tokens) if gold else []
    translators = [Translator(model, own_reader, search) for model, own_reader in loaded]
    translations, speeds = side_by_side(translators, pairs, max_tokens=max_tokens)
    rows = []
    for place, (name, model) in enumerate(zip(short_names(every_path), models, strict=True)):
        scores = {}
        signatures = {}
        for metric, scorer in metrics.items():
            scores[metric] = scorer.corpus_score(translations[place], [references]).score
            signatures[metric] = str(scorer.get_signature())
        if aers:
            scores["AER"], signatures["AER"] = aers[place]
        speed = speeds[place] / speeds[0]
        rows.append(_row(name, model, scores, signatures, speed))
    return Comparison(_beside(rows[: len(paths)], rows[len(paths) :]))


def _check_heads(paths: Sequence[str], models: Sequence[nn.Module], trained: int) -> None:
    """Refuses a model from scratch, after the ``trained`` ones, whose heads none of those has.

    Two of the same heads are refused, too.
    """
    known = {open_names(model) for model in models[:trained]}
    by_heads: dict[tuple[Head, ...], str] = {}
    for path, model in zip(paths[trained:], models[trained:], strict=True):
        heads = open_names(model)
        if heads not in known:
            raise InputError(
                f"{path}: none of the models of --path has its heads; expected one from scratch, "
                "trained with --alive-heads of one of them"
            )
        if heads in by_heads:
            raise InputError(f"{path}: has the heads of {by_heads[heads]}; expected one of them")
        by_heads[heads] = path


def _beside(rows: list[Row], scratch: list[Row]) -> list[Row]:
    """The rows, each with the model from scratch that has its heads, if there is one."""
    by_heads = {row.names: row for row in scratch}
    return [row._replace(scratch=by_heads.get(row.names)) for row in rows]


def _row(
    name: str,
    model: nn.Module,
    scores: dict[str, float],
    signatures: dict[str, str],
    speed: float,
) -> Row:
    parameters = list(model.parameters())
    size = sum(parameter.numel() * parameter.element_size() for parameter in parameters)
    return Row(
        name,
        heads=open_heads(model),
        parameters=sum(parameter.numel() for parameter in parameters),
        megabytes=size / 1e6,
        scores=scores,
        signatures=signatures,
        speed=speed,
        names=open_names(model),
    )


def _load(
    path: str,
    data: str,
    reader: Callable[[Any], PairReader],
    overrides: dict | None,
    device: str | torch.device,
    dtype: str,
) -> tuple[nn.Module, PairReader]:
    model, task = load_single(path, data, overrides)
    check_translates(model)
    return model.to(device=device, dtype=getattr(torch, dtype)), reader(task)


def _check_alike(paths: Sequence[str], readers: Sequence[PairReader]) -> None:
    """Refuses models that do not read and write the same tokens."""
    first = _direction(readers[0])
    for path, reader in zip(paths, readers, strict=True):
        own = _direction(reader)
        if own != first:
            raise InputError(
                f"{path} translates {own}, {paths[0]} {first}; expected models of one direction"
            )
        if _tokens(reader) != _tokens(readers[0]):
            raise InputError(
                f"{path}: its dictionaries or language tokens are not those of {paths[0]}"
            )


def _direction(reader: PairReader) -> str:
    options = task_options(reader.task)
    return f"{options.source_lang}-{options.target_lang}"


def _tokens(reader: PairReader) -> tuple:
    return reader.task.source_dictionary, reader.task.target_dictionary, reader.marks


def open_heads(model: nn.Module) -> dict[tuple[str, int], int]:
    """How many heads of each attention are there, and not closed by a gate."""
    counts = Counter(head[:2] for head in open_names(model))
    return {name: counts[name] for name in attentions(model)}


def open_names(model: nn.Module) -> tuple[Head, ...]:
    """The names of those heads, as in the model that none was removed from."""
    names = []
    for (kind, layer), attention in attentions(model).items():
        numbers = head_numbers(attention)
        gates = gate_values(attention)
        is_open = [True] * len(numbers) if gates is None else (gates != 0).tolist()
        for number in compress(numbers, is_open):
            names.append(Head(kind, layer, number))
    return tuple(names)


def aer_scores(
    models: Sequence[nn.Module],
    readers: Sequence[PairReader],
    gold: GoldTexts,
    *,
    method: str = "norms",
    max_tokens: int = 4000,
) -> list[tuple[float, str]]:
    """AER of each model in percent, with its signature; says if the gold looks misread."""
    options = AlignOptions(method=method, batch_tokens=max_tokens)
    files = TextFile(gold.source), TextFile(gold.target), gold.gold
    sources, targets, golds = transposed(read_together(*files), len(files))
    if not golds:
        raise InputError(f"{gold.gold.name}: no gold in it, and no sentences in its texts")
    pairs = list(text_pairs(zip(sources, targets, strict=True), readers[0], name="gold text"))
    scores: list[tuple[float, str]] = []
    for model, reader in zip(models, readers, strict=True):
        links, made_with = align(TeacherForcing(model, reader.task), reader, pairs, options)
        if not scores:
            warn_of_misread_gold(links, golds, gold.gold)
        total = sum(map(count, links, golds), Counts())
        scores.append((100 * total.aer, signature({**gold.gold.read_as(), **made_with})))
    return scores


def align(
    forcing: TeacherForcing, reader: PairReader, pairs: list[Pair], options: AlignOptions
) -> tuple[list[set[Link]], dict[str, Any]]:
    """Links as ``normalign align`` makes them, and what they are made with."""
    if not forcing.layers_with_heads():
        return [set() for _ in pairs], {"method": "none"}
    aligner, (again,) = NormAligner(forcing, reader, options).decide_on(pairs)
    return list(map(set, aligner.links_many(again))), aligner.signature()
