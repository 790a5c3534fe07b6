"""One teacher-forced pass over sentence pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from fairseq.data.data_utils import collate_tokens
from fairseq.tasks.language_modeling import LanguageModelingTask
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import (
    attentions,
    head_numbers,
    out_weight,
    single_beam,
)
from fairseq_normalign.host.lengths import Limits, excess, fitted, limits_of
from fairseq_normalign.host.pairs import Pair, PairReader, Sentence
from fairseq_normalign.host.special_tokens import special_tokens_of
from fairseq_normalign.names import KINDS


class TeacherForcing:
    """A translation Transformer and its task, ready to be run on pairs.

    Args:
        attention: what to look at: ``cross``, which alignments come from, ``decoder`` or
            ``encoder``. For the last one, pairs need no target, and the model needs no decoder.
            Of a language model, which reads the source of a pair, there is ``decoder`` alone.
    """

    def __init__(self, model, task, *, attention: str = "cross"):
        self.model, self.attention = model, attention
        self.pad = task.source_dictionary.pad()
        self.start = special_tokens_of(task).start
        self.is_language_model = not hasattr(model, "encoder")
        refuse_missing(model, task, attention)
        modules = [module for (kind, _), module in attentions(model).items() if kind == attention]
        self.head_numbers = list(map(head_numbers, modules))  # from 0, by layer
        self.head_counts = list(map(len, self.head_numbers))
        self.layers = len(modules)
        self.heads = max(self.head_counts)
        self.width = out_weight(modules[0]).shape[0]

    @property
    def limits(self) -> Limits:
        """How many tokens the model takes, on the sides that it is run on."""
        limits = limits_of(self.model)
        return limits._replace(target=None) if self.attention == "encoder" else limits

    @property
    def sides(self) -> tuple[str, str]:
        """Of which side of a pair, source or target, the queries and the keys are tokens."""
        if self.is_language_model:
            return "source", "source"
        kind = KINDS[self.attention]
        return kind.queries, kind.keys

    def layers_with_heads(self) -> list[int]:
        """The layers of the attention that pruning left with heads, from 0."""
        return [layer for layer, heads in enumerate(self.head_counts) if heads]

    def head_place(self, layer: int, number: int) -> int:
        """Where a layer has the head of this number, both from 0.

        That is the number itself unless pruning has removed heads before it.
        """
        return self.head_numbers[layer].index(number)

    def forward(self, pairs: list[Pair]) -> None:
        """Runs the encoder, and the decoder if it is looked at, but not the output layer.

        A language model has no encoder: its decoder reads the source.

        Both sides are padded on the right, whatever the task does in training: positions and masks
        follow the padding, and token j of a sentence is then at row or column j.
        """
        if self.is_language_model:
            read = self._padded([pair.source.tokens for pair in pairs])
            self.model.decoder.extract_features(read, encoder_out=None)
            return
        src_tokens, prev_output_tokens, _ = self.tensors(pairs)
        encoder = getattr(self.model.encoder, "sentence_encoder", self.model.encoder)  # RoBERTa's
        with single_beam(self.model):  # it may have translated before
            encoder_out = encoder(src_tokens, src_lengths=src_tokens.ne(self.pad).sum(1))
            if KINDS[self.attention].side == "decoder":
                self.model.decoder.extract_features(prev_output_tokens, encoder_out=encoder_out)

    def tensors(self, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor, Tensor]:
        """What the encoder reads (B, S), the decoder reads (B, T), and is to predict (B, T)."""
        start = torch.tensor([self.start])
        sources = [pair.source.tokens for pair in pairs]
        targets = [pair.target.tokens for pair in pairs]
        read = [torch.cat([start, target[:-1]]) for target in targets]
        return self._padded(sources), self._padded(read), self._padded(targets)

    def _padded(self, sentences: list[Tensor]) -> Tensor:
        device = next(self.model.parameters()).device
        return collate_tokens(sentences, self.pad).to(device)

    def takes(self, pair: Pair) -> bool:
        """Whether the pair is not too long for the model."""
        return not excess(pair, self.limits)

    def check_lengths(self, pairs: Sequence[Pair]) -> None:
        """Refuses a pair that is too long for the model."""
        fitted(pairs, self.limits)


class Model(Protocol):
    """A model that is ready to run, and how it reads text; a ``NormAligner`` is one."""

    @property
    def forcing(self) -> TeacherForcing: ...

    @property
    def reader(self) -> PairReader: ...


def refuse_missing(model, task, attention: str) -> None:
    """Refuses an attention that a model has not, and tasks whose text it would misread."""
    there = dict.fromkeys(KINDS[kind].title for kind, _ in attentions(model))
    if KINDS[attention].title not in there:
        instead = f"; it has {' and '.join(there)}" if there else ""
        raise InputError(f"{type(model).__name__} has no {KINDS[attention].title}{instead}")
    if not hasattr(model, "encoder") and not isinstance(task, LanguageModelingTask):
        raise InputError(
            f"{type(model).__name__} has no encoder, and its task is {type(task).__name__}; "
            "expected a language model of the task language_modeling"
        )


def places_by_word(sentence: Sentence) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the tokens, ordered by word, and their words.

    Marks such as </s> form one last word.
    """
    ids = np.array(sentence.words)
    ids[ids < 0] = len(sentence.text)
    order = np.argsort(ids, kind="stable")
    return order, ids[order]


def target_log_probs(model: Any, output: Any, target: Tensor) -> Tensor:
    """log p of each token of the target, (B, T).

    Args:
        output: of the model's forward pass.
        target: tokens, (B, T).
    """
    adaptive = getattr(model.decoder, "adaptive_softmax", None)
    if adaptive is not None:
        return _adaptive_log_probs(adaptive, output[0], target)
    log_probs = model.get_normalized_probs(output, log_probs=True, sample={"target": target})
    return _picked(log_probs, target)


def losses(forcing: TeacherForcing, pairs: Sequence[Pair]) -> Tensor:
    """Cross-entropy of the reference, summed over the tokens of each pair, </s> included, (B,)."""
    source, read, target = forcing.tensors(pairs)
    with single_beam(forcing.model):
        output = forcing.model(source, source.ne(forcing.pad).sum(1), read)
    of_target = target_log_probs(forcing.model, output, target).float()
    return -of_target.masked_fill(target.eq(forcing.pad), 0).sum(1)


@torch.no_grad()
def loss_per_token(forcing: TeacherForcing, pairs: Sequence[Pair]) -> float:
    """−log p of a token of the target, on average; one pair at a time, to save memory."""
    loss = sum(float(losses(forcing, [pair])) for pair in pairs)
    return loss / max(sum(len(pair.target.tokens) for pair in pairs), 1)


def _adaptive_log_probs(softmax: Any, features: Tensor, target: Tensor) -> Tensor:
    """log p(token) = log p(its cluster) + log p(token | cluster), (B, T).

    fairseq's own function for all tokens changes in place what a gradient needs.
    """
    (head, *tails), (first, *seconds) = softmax(features, target)
    log_probs = _picked(head.log_softmax(-1), first)  # (B·T,)
    for number, (logits, second) in enumerate(zip(tails, seconds, strict=True)):
        if logits is not None:
            places = first.eq(softmax.cutoff[0] + number).nonzero().flatten()
            log_probs = log_probs.index_add(0, places, _picked(logits.log_softmax(-1), second))
    return log_probs.view_as(target)


def _picked(log_probs: Tensor, tokens: Tensor) -> Tensor:
    return log_probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
