"""What models cost and what they are worth, side by side: heads, size, BLEU, chrF, AER, speed of
generation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from sacrebleu.metrics import BLEU, CHRF
from torch import nn
from tqdm import tqdm

from fairseq_normalign.alignment.aer import Counts, count, signature
from fairseq_normalign.alignment.links import GoldFile, InMemory, Link, read_together
from fairseq_normalign.alignment.words import TextFile
from fairseq_normalign.analysis.aligner import NormAligner
from fairseq_normalign.analysis.gold_check import warn_of_misread_gold
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import read_lines
from fairseq_normalign.host.batches import numbered_batches
from fairseq_normalign.host.binarised import binarised_pairs
from fairseq_normalign.host.checkpoint import load_single
from fairseq_normalign.host.pairs import Pair, PairReader, text_pairs
from fairseq_normalign.host.recorder import attentions
from fairseq_normalign.host.special_tokens import task_options
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.host.translate import Translator, check_translates, reference

TOKENIZERS = tuple(BLEU.TOKENIZERS)


class Row(NamedTuple):
    """One model of a comparison."""

    name: str
    heads: dict[tuple[str, int], int]  # (kind, layer from 0) → heads that are there and not closed
    parameters: int
    megabytes: (
        float  # of the parameters: checkpoints of a training also hold what its optimiser remembers
    )
    scores: dict[str, float]  # BLEU, chrF and, where there is gold, AER; all in percent
    signatures: dict[str, str]  # of each score: everything that changes it
    speed: float  # tokens generated in a second, over those of the first model


class Texts(NamedTuple):
    """Two parallel files of text."""

    source: str
    target: str


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
    reader: Callable[[Any], PairReader] = PairReader,
    gold: GoldTexts | None = None,
    search: Mapping[str, Any] | None = None,
    tokenize: str = "13a",
    lowercase: bool = False,
    limit: int | None = None,
    max_tokens: int = 4000,
    device: str | torch.device = "cpu",
    dtype: str = "float32",
    overrides: dict | None = None,
) -> list[Row]:
    """Evaluates models that share dictionaries, one row for each.

    Args:
        paths: the checkpoints.
        data: the directory with ``dict.*.txt``.
        corpus: what to translate: text files, or the name of a binarised subset of ``data``.
        encoder: task → how text is read, e.g. ``partial(Encoder.from_names, bpe="sentencepiece",
            model="spm.model")``.
        gold: links and texts for AER; layer and step are chosen without gold, for each model.
        search: fairseq's options of beam search, where they are not to be those of
            ``translate.SEARCH``.
        tokenize: sacrebleu's tokeniser for BLEU; ``none`` for text that is tokenised.
        lowercase: whether BLEU and chrF ignore case.
        limit: how many sentences to translate, from the first on; all by default.
    """
    metrics = translation_metrics(tokenize, lowercase=lowercase)
    models, readers = zip(
        *(_load(path, data, reader, overrides, device, dtype) for path in paths), strict=True
    )
    _check_alike(paths, readers)
    pairs, references = read_corpus(corpus, readers[0], limit=limit)
    # Alignment comes first: beam search leaves attention set up for beams.
    aers = (
        aer_scores(models, readers, gold, max_tokens=max_tokens) if gold else [None] * len(models)
    )
    translators = [Translator(*parts, search) for parts in zip(models, readers, strict=True)]
    translations, speeds = side_by_side(translators, pairs, max_tokens=max_tokens)
    rows = []
    for name, model, aer, texts, speed in zip(
        short_names(paths), models, aers, translations, speeds, strict=True
    ):
        scores = {
            metric: scorer.corpus_score(texts, [references]).score
            for metric, scorer in metrics.items()
        }
        signatures = {metric: str(scorer.get_signature()) for metric, scorer in metrics.items()}
        if aer is not None:
            scores["AER"], signatures["AER"] = aer
        rows.append(
            Row(
                name,
                heads=open_heads(model),
                parameters=sum(parameter.numel() for parameter in model.parameters()),
                megabytes=sum(p.numel() * p.element_size() for p in model.parameters()) / 1e6,
                scores=scores,
                signatures=signatures,
                speed=speed / speeds[0],
            )
        )
    return rows


def _load(path: str, data: str, reader: Callable, overrides: dict | None, device, dtype: str):
    model, task = load_single(path, data, overrides)
    check_translates(model)
    return model.to(device=device, dtype=getattr(torch, dtype)), reader(task)


def _check_alike(paths: Sequence[str], readers: Sequence[PairReader]) -> None:
    """Refuses models that do not read and write the same tokens."""
    languages = [
        "{0.source_lang}-{0.target_lang}".format(task_options(reader.task)) for reader in readers
    ]
    tokens = [(e.task.source_dictionary, e.task.target_dictionary, e.marks) for e in readers]
    for path, found, known in zip(paths, languages, tokens, strict=True):
        if found != languages[0]:
            raise InputError(
                f"{path} translates {found}, {paths[0]} {languages[0]}; expected models of one "
                "direction"
            )
        if known != tokens[0]:
            raise InputError(
                f"{path}: its dictionaries or language tokens are not those of {paths[0]}"
            )


def short_names(paths: Sequence[str]) -> list[str]:
    """File names, or whole paths where file names do not tell models apart."""
    names = [Path(path).name for path in paths]
    return names if len(set(names)) == len(set(paths)) else list(map(str, paths))


def open_heads(model: nn.Module) -> dict[tuple[str, int], int]:
    """How many heads of each attention are there, and not closed by a gate."""
    return {name: _open(attention) for name, attention in attentions(model).items()}


def _open(attention: nn.Module) -> int:
    gates = getattr(attention.out_proj, "gate_values", None)
    return attention.num_heads if gates is None else int(gates().count_nonzero())


def read_corpus(
    corpus: Texts | str, reader: PairReader, *, limit: int | None = None
) -> tuple[list[Pair], list[str]]:
    """What to translate, and the references: lines as they are, or binarised pieces joined as
    translations are."""
    if isinstance(corpus, Texts):
        lines = InMemory(corpus.target, (line.rstrip("\n") for line in read_lines(corpus.target)))
        sources, references = _columns(read_together(TextFile(corpus.source), lines), 2)
        pairs = list(text_pairs(((source, None) for source in sources[:limit]), reader))
    else:
        pairs = list(binarised_pairs(corpus, reader)[0])[:limit]
        references = [reference(pair, reader) for pair in pairs]
    if not pairs:
        raise InputError(
            f"{corpus.source if isinstance(corpus, Texts) else corpus}: nothing to translate"
        )
    return pairs, references[:limit]


def _columns(rows, count: int) -> list[list]:
    return [list(column) for column in zip(*rows, strict=True)] or [[]] * count


def translation_metrics(
    tokenize: str = "13a", *, lowercase: bool = False
) -> dict[str, BLEU | CHRF]:
    """sacrebleu's BLEU and chrF."""
    if tokenize not in TOKENIZERS:
        raise InputError(
            f"unknown tokeniser {tokenize!r}; expected one of sacrebleu's: {', '.join(TOKENIZERS)}"
        )
    forcing = tokenize == "none"  # whoever says that the text is tokenised need not be warned of it
    try:
        bleu = BLEU(tokenize=tokenize, lowercase=lowercase, force=forcing)
    except (
        ImportError,
        OSError,
        RuntimeError,
    ) as error:  # some tokenisers need packages, or models from the web
        raise InputError(
            f"sacrebleu's tokeniser {tokenize}: {' '.join(str(error).split())}"
        ) from None
    return {"BLEU": bleu, "chrF": CHRF(lowercase=lowercase)}


def side_by_side(
    translators: Sequence[Translator], pairs: Sequence[Pair], *, max_tokens: int = 4000
) -> tuple[list[list[str]], list[float]]:
    """Translations by each model in input order, and how many tokens it generates in a second of
    process time.

    Each batch is translated by all models in turn, so that a slow moment of the machine meets all
    of them; the first batch also before, without being timed.
    """
    batches = list(numbered_batches(pairs, max_tokens=max_tokens))
    texts = [[""] * len(pairs) for _ in translators]
    tokens, seconds = [0] * len(translators), [0.0] * len(translators)
    for translate in translators:
        translate([pair for _, pair in batches[0]])
    with tqdm(total=len(pairs), unit=" sentences", disable=None) as progress:
        for batch in batches:
            for model, translate in enumerate(translators):
                start = time.process_time()
                found = translate([pair for _, pair in batch])
                seconds[model] += time.process_time() - start
                tokens[model] += sum(map(len, found))
                for (place, _), hypothesis in zip(batch, found, strict=True):
                    texts[model][place] = translate.text(hypothesis)
            progress.update(len(batch))
    return texts, [many / spent for many, spent in zip(tokens, seconds, strict=True)]


def aer_scores(
    models: Sequence[nn.Module],
    readers: Sequence[PairReader],
    gold: GoldTexts,
    *,
    max_tokens: int = 4000,
) -> list[tuple[float, str]]:
    """AER of each model in percent, with its signature; says if the gold looks misread."""
    files = TextFile(gold.source), TextFile(gold.target), gold.gold
    sources, targets, golds = _columns(read_together(*files), len(files))
    if not golds:
        raise InputError(f"{gold.gold.name}: no gold in it, and no sentences in its texts")
    pairs = list(text_pairs(zip(sources, targets, strict=True), readers[0]))
    scores: list[tuple[float, str]] = []
    for model, reader in zip(models, readers, strict=True):
        links, made_with = align(TeacherForcing(model, reader.task), reader, pairs, max_tokens)
        if not scores:
            warn_of_misread_gold(links, golds, gold.gold)
        total = sum(map(count, links, golds), Counts())
        scores.append((100 * total.aer, _aer_signature(gold.gold, made_with)))
    return scores


def align(
    forcing: TeacherForcing, reader: PairReader, pairs: list[Pair], max_tokens: int = 4000
) -> tuple[list[set[Link]], dict[str, Any]]:
    """Links by the defaults of ``normalign align``, and what they are made with."""
    if not forcing.layers_with_heads():
        return [set() for _ in pairs], {"method": "none"}
    aligner, (again,) = NormAligner(forcing, reader, batch_tokens=max_tokens).decide(pairs)
    return list(map(set, aligner.links_many(again))), aligner.signature()


def _aer_signature(gold: GoldFile, made_with: dict[str, Any]) -> str:
    read = {
        "ref-index": gold.index,
        "reverse": "ref" if gold.reverse else "none",
        "possible": gold.possible,
    }
    return signature({**read, **made_with})
