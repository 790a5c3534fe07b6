"""What translation loses with a head."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from sacrebleu.metrics import BLEU
from torch import nn

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.attention_pass import running_heads
from fairseq_normalign.heads.importance import losses
from fairseq_normalign.host.attention_modules import (
    attentions,
    head_count,
    head_counts,
    stored_out_weight,
)
from fairseq_normalign.host.batches import numbered_batches, text_of
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.host.translate import Translator, reference
from fairseq_normalign.names import Head, all_heads
from fairseq_normalign.progress import bar
from fairseq_normalign.runs.sums import Pass, Sums


@contextmanager
def ablated(model: nn.Module, head: Head) -> Iterator[None]:
    """The model with one head off, its columns of W_O being zero.

    They are restored exactly, also after an error.
    """
    attention = attentions(model)[head.kind, head.layer]
    by_head = stored_out_weight(attention).data.unflatten(1, (head_count(attention), -1))
    columns = by_head[:, head.head]  # (C, D), a view
    before = columns.clone()
    columns.zero_()
    try:
        yield
    finally:
        columns.copy_(before)


def ablation(
    forcing: TeacherForcing,
    pairs: Sequence[Pair],
    *,
    max_tokens: int = 4000,
    sums: Sums | None = None,
) -> dict[Head, float]:
    """How much the loss per target token grows with one head off, for every head.

    That takes 1 + H passes over the pairs.
    """

    def loss() -> float:
        return token_loss(forcing, pairs, max_tokens=max_tokens)

    heads = all_heads(running_heads(forcing))
    scores = AblatedScores()
    this_pass = (sums or Sums()).begin("ablation", [scores], unit="heads")
    scores.measure(forcing.model, heads, loss, pairs, this_pass)
    return {head: scores.without[head] - scores.whole for head in heads}


def bleu_ablation(
    translator: Translator,
    pairs: Sequence[Pair],
    bleu: BLEU,
    *,
    max_tokens: int = 4000,
    sums: Sums | None = None,
) -> dict[Head, float]:
    """How much BLEU falls with one head off, for every head: 1 + H times beam search."""
    references = [reference(pair, translator.reader) for pair in pairs]

    def score() -> float:
        translations = list(translator.translations(pairs, max_tokens=max_tokens))
        return bleu.corpus_score(translations, [references]).score

    heads = all_heads(head_counts(translator.model))
    scores = AblatedScores()
    this_pass = (sums or Sums()).begin("ablation-by-BLEU", [scores], unit="heads")
    scores.measure(translator.model, heads, score, pairs, this_pass)
    return {head: scores.whole - scores.without[head] for head in heads}


class AblatedScores:
    """Some score of a model, whole and with each head off."""

    KEPT = ("whole", "without")

    def __init__(self) -> None:
        self.whole = 0.0
        self.without: dict[Head, float] = {}

    def measure(
        self,
        model: nn.Module,
        heads: Sequence[Head],
        score: Callable[[], float],
        pairs: Sequence[Pair],
        this_pass: Pass,
    ) -> None:
        """Measures the model as it is, then without each head.

        Args:
            score: of the model as it is when this is called.
            pairs: what it is measured on.
        """

        def text(head: Head | None) -> bytes:
            return text_of(pairs) if head is None else str(head).encode()

        steps = [None, *heads]
        with bar(this_pass.title, total=this_pass.left(len(heads)), unit="heads") as shown:
            for head in this_pass.over(steps, text=text, size=_heads, progress=shown.update):
                if head is None:
                    self.whole = score()
                else:
                    with ablated(model, head):
                        self.without[head] = score()


def _heads(head: Head | None) -> int:
    return 0 if head is None else 1


@torch.no_grad()
def token_loss(forcing: TeacherForcing, pairs: Sequence[Pair], *, max_tokens: int = 4000) -> float:
    """Cross-entropy per target token, </s> included."""
    tokens = sum(len(pair.target.tokens) for pair in pairs)
    if tokens == 0:
        raise InputError("the loss needs target sentences; the corpus has none")
    loss = 0.0
    for numbered in numbered_batches(pairs, max_tokens=max_tokens):
        batch = [pair for _, pair in numbered]
        loss += losses(forcing, batch).double().sum().item()
    return loss / tokens
