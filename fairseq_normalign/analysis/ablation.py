"""What translation loses with a head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from sacrebleu.metrics import BLEU
from torch import nn
from tqdm import tqdm

from fairseq_normalign.analysis.attention_pass import running_heads
from fairseq_normalign.analysis.importance import losses
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.names import Head, all_heads
from fairseq_normalign.host.attention import (
    attentions,
    head_count,
    head_counts,
    stored_out_weight,
)
from fairseq_normalign.host.batches import numbered_batches
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.host.translate import Translator, reference


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
    forcing: TeacherForcing, pairs: Sequence[Pair], *, max_tokens: int = 4000
) -> dict[Head, float]:
    """How much the loss per target token grows with one head off, for every head.

    That takes 1 + H passes over the pairs.
    """
    whole = token_loss(forcing, pairs, max_tokens=max_tokens)
    heads = all_heads(running_heads(forcing))
    changes = {}
    for head in tqdm(heads, desc="ablation", unit=" heads", disable=None):
        with ablated(forcing.model, head):
            changes[head] = token_loss(forcing, pairs, max_tokens=max_tokens) - whole
    return changes


def bleu_ablation(
    translator: Translator, pairs: Sequence[Pair], bleu: BLEU, *, max_tokens: int = 4000
) -> dict[Head, float]:
    """How much BLEU falls with one head off, for every head: 1 + H times beam search."""
    references = [reference(pair, translator.reader) for pair in pairs]

    def score() -> float:
        translations = list(translator.translations(pairs, max_tokens=max_tokens))
        return bleu.corpus_score(translations, [references]).score

    whole = score()
    heads = all_heads(head_counts(translator.model))
    changes = {}
    for head in tqdm(heads, desc="ablation by BLEU", unit=" heads", disable=None):
        with ablated(translator.model, head):
            changes[head] = whole - score()
    return changes


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
