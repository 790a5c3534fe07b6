"""What to translate, translations of several models side by side, and how they are scored."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import islice

from sacrebleu.metrics import BLEU, CHRF

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import split_words
from fairseq_normalign.heads.comparison import Texts
from fairseq_normalign.host.batches import numbered_batches
from fairseq_normalign.host.binarised import binarised_pairs
from fairseq_normalign.host.pairs import Pair, PairReader, text_pairs
from fairseq_normalign.host.translate import Translator, reference
from fairseq_normalign.progress import bar
from fairseq_normalign.text.links import read_together
from fairseq_normalign.text.paired import text_sides


def read_corpus(
    corpus: Texts | str, reader: PairReader, *, limit: int | None = None
) -> tuple[list[Pair], list[str]]:
    """What to translate, and the references.

    References are lines as they are, or binarised pieces joined as translations are.
    """
    if isinstance(corpus, Texts):
        name = corpus.source
        both = read_together(*text_sides(corpus.source, corpus.target))
        sources, targets = transposed(both, 2)
        references = [line.rstrip("\n") for line in targets]
        without_targets = ((split_words(source), None) for source in sources[:limit])
        pairs = list(text_pairs(without_targets, reader))
    else:
        name = corpus
        pairs = list(islice(binarised_pairs(corpus, reader), limit))
        references = [reference(pair, reader) for pair in pairs]
    if not pairs:
        raise InputError(f"{name}: nothing to translate")
    return pairs, references[:limit]


def transposed(tuples: Iterable[tuple], count: int) -> list[list]:
    """Tuples of ``count`` entries as so many lists."""
    return [list(column) for column in zip(*tuples, strict=True)] or [[]] * count


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
    texts = [[""] * len(pairs) for _ in translators]
    tokens, seconds = [0] * len(translators), [0.0] * len(translators)
    for translate in translators:
        translate([pair for _, pair in batches[0]])
    with bar("translation", total=len(pairs), unit="sentences") as shown:
        for batch in batches:
            for model, translate in enumerate(translators):
                start = time.process_time()
                hypotheses = translate([pair for _, pair in batch])
                seconds[model] += time.process_time() - start
                tokens[model] += sum(map(len, hypotheses))
                for (place, pair), hypothesis in zip(batch, hypotheses, strict=True):
                    if not pair.skipped:
                        texts[model][place] = translate.text(hypothesis)
            shown.update(len(batch))
    speeds = [count / spent for count, spent in zip(tokens, seconds, strict=True)]
    return texts, speeds
