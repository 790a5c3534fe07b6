"""One teacher-forced pass over sentence pairs → soft word alignments, as many kinds of them as asked for."""

from __future__ import annotations

from typing import Collection, Iterator, NamedTuple, Sequence

import numpy as np
import torch
from fairseq.data.data_utils import collate_tokens
from torch import Tensor

from fairseq_normalign.alignment.extract import to_words
from fairseq_normalign.errors import InputError
from fairseq_normalign.norms.soft import METHODS
from fairseq_normalign.plugin.corpus import Pair, Sentence
from fairseq_normalign.plugin.marks import marks_of
from fairseq_normalign.plugin.recorder import Recording, attentions, record
from fairseq_normalign.plugin.relevances import relevances

# Which decoder row stands for target token j: the one that reads it (align with input, AWI) or the one that predicts
# it (align with output, AWO). Row 0 reads </s> and predicts token 0.
STEPS = {"input": 1, "output": 0}

# Soft alignments by relevance instead of attention, of the whole model: name of the method → rules.
LRP = {"lrp": "voita", "lrp-epsilon": "epsilon", "lrp-attnlrp": "attnlrp"}

EOS = ("null", "skip")  # what becomes of a word that takes most from the source's </s>

NAMES = {
    "encoder": "self-attention in its encoder",
    "decoder": "self-attention in its decoder",
    "cross": "source–target attention",
}


class Evidence(NamedTuple):
    """Where a soft alignment comes from. Layer and head count from 0; no head means all of them.

    Methods of ``LRP`` are of no layer: it is 0.
    """

    method: str = "norms"
    layer: int = 0
    step: str = "input"
    head: int | None = None


class Soft(NamedTuple):
    """A soft word alignment: what each target word takes from each source word, and from the source's </s>."""

    words: np.ndarray  # (T, S)
    null: np.ndarray  # (T,)


class Forced:
    """A translation Transformer and its task, ready to be run on pairs.

    Args:
        attention: what to look at: ``cross``, which alignments come from, ``decoder`` or ``encoder``. For the last
            one, pairs need no target, and the model needs no decoder.
    """

    def __init__(self, model, task, *, attention: str = "cross", source_merge: str = "sum", target_merge: str = "mean"):
        self.model, self.attention = model, attention
        self.pad, self.start = task.source_dictionary.pad(), marks_of(task).start
        self.merges = {"source_merge": source_merge, "target_merge": target_merge}
        if not hasattr(model, "encoder"):
            raise InputError(f"{type(model).__name__} has no encoder; language models are not supported")
        modules = [module for (kind, _), module in attentions(model).items() if kind == attention]
        if not modules:
            raise InputError(f"{type(model).__name__} has no {NAMES[attention]}")
        self.head_counts = [module.num_heads for module in modules]  # by layer
        self.layers, self.heads, self.width = len(modules), max(self.head_counts), modules[0].out_proj.weight.shape[0]

    def __call__(self, pairs: list[Pair], evidences: Sequence[Evidence]) -> Iterator[list[Soft]]:
        """The soft alignments of each pair, one for each evidence."""
        matrices = {**self._of_attention(pairs, evidences), **self._of_relevance(pairs, evidences)}
        by_token = np.stack([_by_token(matrices[e.method, e.layer, e.head], e.step) for e in evidences], axis=1)
        for pieces, pair in zip(by_token, pairs):
            yield self._to_words(pieces, pair)

    def _of_attention(self, pairs: list[Pair], evidences: Sequence[Evidence]) -> dict[tuple, np.ndarray]:
        """A matrix (B, T, S) for each method, layer and head of the evidences that come from attention."""
        wanted = {(e.method, e.layer, e.head) for e in evidences if e.method in METHODS}
        if not wanted:
            return {}
        layers, values = {layer for _, layer, _ in wanted}, any(method != "weights" for method, _, _ in wanted)
        recording = self.recorded(pairs, layers=layers, values=values)
        return {
            (method, layer, head): METHODS[method](recording["cross", layer], head).float().cpu().numpy()
            for method, layer, head in wanted
        }

    def _of_relevance(self, pairs: list[Pair], evidences: Sequence[Evidence]) -> dict[tuple, np.ndarray]:
        """The same for those that come from LRP: |R| of source tokens for each target token's logit."""
        matrices = {}
        for wanted in {(e.method, e.layer, e.head) for e in evidences if e.method in LRP}:
            longest = max(len(side.tokens) for pair in pairs for side in pair[:2])
            bound = len(pairs) * longest  # vectors at once: as many as the batch has tokens
            found = list(relevances(self, pairs, rules=LRP[wanted[0]], start="reference", max_tokens=bound))
            matrix = np.zeros((len(pairs), *(max(sizes) for sizes in zip(*(one.source.shape for one in found)))))
            for row, one in zip(matrix, found):
                row[: one.source.shape[0], : one.source.shape[1]] = np.abs(one.source)
            matrices[wanted] = matrix
        return matrices

    def recorded(self, pairs: list[Pair], *, layers: Collection[int], values: bool) -> Recording:
        """What the attention did on a batch, padded on the right."""
        self.check_lengths(pairs)
        with torch.no_grad(), record(self.model, (self.attention,), layers=layers, values=values) as recording:
            self.forward(pairs)
        return recording

    def forward(self, pairs: list[Pair]) -> None:
        """Runs the encoder, and the decoder if it is looked at, without the output layer, which no attention needs.

        Both sides are padded on the right, whatever the task does in training: positions and masks follow the padding,
        and token j of a sentence is then at row or column j.
        """
        src_tokens, prev_output_tokens, _ = self.tensors(pairs)
        encoder = getattr(self.model.encoder, "sentence_encoder", self.model.encoder)  # RoBERTa's
        encoder_out = encoder(src_tokens, src_lengths=src_tokens.ne(self.pad).sum(1))
        if self.attention != "encoder":
            self.model.decoder.extract_features(prev_output_tokens, encoder_out=encoder_out)

    def tensors(self, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor, Tensor]:
        """What the encoder reads (B, S), what the decoder reads (B, T), and what it is to predict (B, T)."""
        device = next(self.model.parameters()).device
        starts = [torch.cat([torch.tensor([self.start]), pair.target.tokens[:-1]]) for pair in pairs]
        sides = [pair.source.tokens for pair in pairs], starts, [pair.target.tokens for pair in pairs]
        return tuple(collate_tokens(side, self.pad).to(device) for side in sides)

    def _to_words(self, pieces: np.ndarray, pair: Pair) -> list[Soft]:
        """All soft alignments of a pair at once, (E, T, S): NumPy's calls cost more than what they compute."""
        columns, source_ids = places_by_word(pair.source)
        rows, target_ids = places_by_word(pair.target)
        pieces_only = target_ids < len(pair.target.text)
        rows, target_ids = rows[pieces_only], target_ids[pieces_only]
        words = to_words(pieces[:, rows[:, None], columns], source_ids, target_ids, **self.merges)
        missing = len(pair.target.text) - words.shape[1]  # words at the end that no piece spells
        if missing:
            words = np.pad(words, ((0, 0), (0, missing), (0, 0)))
        return [Soft(soft[:, :-1], soft[:, -1]) for soft in words]

    def takes(self, pair: Pair) -> bool:
        """Whether the pair is not too long for the model."""
        return not any(self._excess(pair))

    def _excess(self, pair: Pair) -> Iterator[str]:
        limits = self.model.max_positions()
        limits = limits if isinstance(limits, tuple) else (limits,)  # one number without a decoder
        for side, limit in zip(("source", "target"), limits):
            length = len(getattr(pair, side).tokens)
            if length > limit:
                yield f"the {side} has {length} pieces with </s>; the model takes {limit}"

    def check_lengths(self, pairs: list[Pair]) -> None:
        for pair in pairs:
            for excess in self._excess(pair):
                raise InputError(f"{pair.where}: {excess}")


def _by_token(matrix: np.ndarray, step: str) -> np.ndarray:
    """(B, T, S) with a row for each step → (B, T - 1, S) with a row for each target token but the last, a mark."""
    first = STEPS[step]
    return matrix[:, first : first + matrix.shape[1] - 1]


def places_by_word(sentence: Sentence) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the tokens, ordered by word, and their words; marks such as </s> form one last word."""
    ids = np.array(sentence.words)
    ids[ids < 0] = len(sentence.text)
    order = np.argsort(ids, kind="stable")
    return order, ids[order]
