"""What models cost and are worth, side by side: heads, size, BLEU, chrF, AER, speed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from sacrebleu.metrics import BLEU, CHRF
from torch import nn

from fairseq_normalign.alignment.aer import score_links, signature
from fairseq_normalign.alignment.aligner import AlignOptions, NormAligner
from fairseq_normalign.alignment.link_doctor import warn_of_misread_gold
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import short_names, split_words
from fairseq_normalign.heads.attention_scores import head_gates
from fairseq_normalign.heads.comparison import Comparison, EvaluateOptions, Row
from fairseq_normalign.host.attention_modules import head_names
from fairseq_normalign.host.batches import numbered_batches
from fairseq_normalign.host.binarised import binarised_pairs
from fairseq_normalign.host.checkpoint import load_single
from fairseq_normalign.host.lengths import fitted, limits_of
from fairseq_normalign.host.options import ReadyModel
from fairseq_normalign.host.pairs import Pair, PairReader, text_pairs
from fairseq_normalign.host.raw_corpus import COMPARED, TEXT, ChunkReader, Item
from fairseq_normalign.host.special_tokens import languages_of
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.host.translate import Translator, check_translates, reference
from fairseq_normalign.names import Head
from fairseq_normalign.progress import bar
from fairseq_normalign.text.links import Link, read_together
from fairseq_normalign.text.paired import text_sides
from fairseq_normalign.text.words import TextFile

Corpus = tuple[str, str | None] | str


def compare(
    paths: Sequence[str],
    data: str,
    corpus: Corpus,
    options: EvaluateOptions | None = None,
    **changes: Any,
) -> Comparison:
    """Evaluates models that share dictionaries, one row for each.

    Args:
        paths: the checkpoints.
        data: the directory with ``dict.*.txt``.
        corpus: what to translate: a source and a target file, or one of lines ``source ||| target``
            and None; or the name of a binarised subset of ``data``.
        options: see ``EvaluateOptions``; or name them one by one.
    """
    options = replace(options or EvaluateOptions(), **changes)
    metrics = translation_metrics(options.tokenize, lowercase=options.lowercase)
    every_path = [*paths, *options.scratch]
    models = [_load(path, data, options) for path in every_path]
    for path, model in zip(every_path, models, strict=True):
        if _tokens(model.reader) != _tokens(models[0].reader):
            raise InputError(
                f"{path}: its languages or dictionaries are not those of {every_path[0]}; pass "
                "models of one direction"
            )
    pairs, references = read_corpus(corpus, models[0].reader, limit=options.limit)
    if not isinstance(corpus, str):
        both = zip(pairs[:COMPARED], references, strict=False)
        items = [Item(((pair.source.text, split_words(text)),), []) for pair, text in both]
        ChunkReader(models[:1], TEXT).refuse_swapped(items)
    limits = limits_of(models[0].forcing.model)._replace(target=None)
    pairs = fitted(pairs, limits, options.too_long)
    # Alignment comes first: beam search leaves attention set up for beams.
    aers = aer_scores(models, options)
    translators = []
    for forcing, reader in models:
        translators.append(Translator(forcing.model, reader, options.search))
    translations, speeds = side_by_side(translators, pairs, max_tokens=options.max_tokens)
    rows = Comparison()
    for place, name in enumerate(short_names(every_path)):
        scores, signatures = {}, {}
        for metric, scorer in metrics.items():
            scores[metric] = scorer.corpus_score(translations[place], [references]).score
            signatures[metric] = str(scorer.get_signature())
        if aers:
            scores["AER"], signatures["AER"] = aers[place]
        model = models[place].forcing.model
        parameters = list(model.parameters())
        row = Row(
            name,
            open_heads(model),
            parameters=sum(parameter.numel() for parameter in parameters),
            megabytes=sum(parameter.nbytes for parameter in parameters) / 1e6,
            scores=scores,
            signatures=signatures,
            speed=speeds[place] / speeds[0],
            from_scratch=place >= len(paths),
        )
        rows.append(row)
    return rows


def _load(path: str, data: str, options: EvaluateOptions) -> ReadyModel:
    model, task = load_single(path, data, options.overrides)
    check_translates(model)
    model.to(device=options.device, dtype=getattr(torch, options.dtype))
    reader = (options.reader or PairReader)(task)
    return ReadyModel(TeacherForcing(model, task), reader)


def _tokens(reader: PairReader) -> tuple:
    task = reader.task
    return languages_of(task), task.source_dictionary, task.target_dictionary, reader.marks


def open_heads(model: nn.Module) -> tuple[Head, ...]:
    """The heads that no gate closes, by their names in the model that none was removed from."""
    gates = head_gates(model)
    return tuple(head for head in head_names(model) if gates.get(head) != 0)


def aer_scores(models: Sequence[ReadyModel], options: EvaluateOptions) -> list[tuple[float, str]]:
    """AER of each model in percent, with its signature, if there is gold; says if it looks misread.

    Links are those that ``normalign align`` makes.
    """
    file = options.gold
    if file is None:
        return []
    lines = list(read_together(*map(TextFile, options.gold_texts), file))
    if not lines:
        raise InputError(f"{file.name}: the gold file and its texts are empty")
    sources, targets, golds = zip(*lines, strict=True)
    texts = zip(sources, targets, strict=True)
    pairs = list(text_pairs(texts, models[0].reader, name="gold text"))
    how = AlignOptions(method=options.method, batch_tokens=options.max_tokens)
    scores: list[tuple[float, str]] = []
    for model in models:
        links: list[set[Link]] = [set() for _ in pairs]
        made_with: dict[str, Any] = {"method": "none"}
        if model.forcing.layers_with_heads():
            aligner, (again,) = NormAligner(*model, how).decide_on(pairs)
            links, made_with = list(map(set, aligner.links_many(again))), aligner.signature()
        if not scores:
            warn_of_misread_gold(links, golds, file)
        aer = score_links(links, golds).aer
        scores.append((100 * aer, signature({**file.read_as(), **made_with})))
    return scores


def read_corpus(
    corpus: Corpus, reader: PairReader, *, limit: int | None = None
) -> tuple[list[Pair], list[str]]:
    """What to translate, and the references.

    References are lines as they are, or binarised pieces joined as translations are.
    """
    if not isinstance(corpus, str):
        name = corpus[0]
        both = list(read_together(*text_sides(*corpus)))[:limit]
        references = [target.rstrip("\n") for _, target in both]
        pairs = list(text_pairs(((split_words(source), None) for source, _ in both), reader))
    else:
        name = corpus
        pairs = list(islice(binarised_pairs(corpus, reader), limit))
        references = [reference(pair, reader) for pair in pairs]
    if not pairs:
        raise InputError(f"{name}: nothing to translate")
    return pairs, references


def translation_metrics(
    tokenize: str = "13a", *, lowercase: bool = False
) -> dict[str, BLEU | CHRF]:
    """sacrebleu's BLEU, with one of its tokenisers, and chrF."""
    if tokenize not in BLEU.TOKENIZERS:
        expected = ", ".join(BLEU.TOKENIZERS)
        raise InputError(f"unknown tokeniser {tokenize!r}; expected one of sacrebleu's: {expected}")
    tokenised = tokenize == "none"  # whoever says so need not be warned of it
    try:
        bleu = BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenised)
    except (ImportError, OSError, RuntimeError) as error:  # it may need packages, or the web
        reason = " ".join(str(error).split())
        raise InputError(f"sacrebleu's tokeniser {tokenize}: {reason}") from None
    return {"BLEU": bleu, "chrF": CHRF(lowercase=lowercase)}


def side_by_side(
    translators: Sequence[Translator], pairs: Sequence[Pair], *, max_tokens: int = 4000
) -> tuple[list[list[str]], list[float]]:
    """Translations by each model in input order, and its tokens a second of process time.

    Each batch is translated by all models in turn, so that a slow moment of the machine meets all
    of them; the first batch also before, without being timed.
    """
    batches = list(numbered_batches(pairs, max_tokens=max_tokens))
    for translate in translators:
        translate([pair for _, pair in batches[0]])
    texts = [[""] * len(pairs) for _ in translators]
    tokens, seconds = np.zeros(len(translators)), np.zeros(len(translators))
    with bar("translation", total=len(pairs), unit="sentences") as shown:
        for numbered in batches:
            places, batch = zip(*numbered, strict=True)
            for model, translate in enumerate(translators):
                start = time.process_time()
                hypotheses = translate(batch)
                seconds[model] += time.process_time() - start
                tokens[model] += sum(map(len, hypotheses))
                for place, hypothesis in zip(places, hypotheses, strict=True):
                    texts[model][place] = translate.text(hypothesis)
            shown.update(len(batch))
    return texts, (tokens / seconds).tolist()
