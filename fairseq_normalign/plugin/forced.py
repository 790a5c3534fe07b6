"""One teacher-forced pass over sentence pairs → soft word alignments, as many kinds of them as asked for."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Sequence

import numpy as np
import torch
from fairseq.data.data_utils import collate_tokens

from fairseq_normalign.alignment.extract import to_words
from fairseq_normalign.errors import InputError
from fairseq_normalign.norms.soft import METHODS
from fairseq_normalign.plugin.corpus import Pair, Sentence
from fairseq_normalign.plugin.marks import marks_of
from fairseq_normalign.plugin.recorder import attentions, record

# Which decoder row stands for target token j: the one that reads it (align with input, AWI) or the one that predicts
# it (align with output, AWO). Row 0 reads </s> and predicts token 0.
STEPS = {"input": 1, "output": 0}


class Evidence(NamedTuple):
    """Where a soft alignment comes from. Layer and head count from 0; no head means all of them."""

    method: str = "norms"
    layer: int = 0
    step: str = "input"
    head: int | None = None


class Soft(NamedTuple):
    """A soft word alignment: what each target word takes from each source word, and from the source's </s>."""

    words: np.ndarray  # (T, S)
    null: np.ndarray  # (T,)


class Forced:
    """A translation Transformer and its task, ready to be run on pairs."""

    def __init__(self, model, task, *, source_merge: str = "sum", target_merge: str = "mean"):
        self.model = model
        self.pad, self.start = task.source_dictionary.pad(), marks_of(task).start
        self.merges = {"source_merge": source_merge, "target_merge": target_merge}
        heads = [module.num_heads for (kind, _), module in attentions(model).items() if kind == "cross"]
        if not heads:
            raise InputError(f"{type(model).__name__} has no source–target attention, which alignments come from")
        self.layers, self.heads = len(heads), max(heads)

    def __call__(self, pairs: list[Pair], evidences: Sequence[Evidence]) -> Iterator[list[Soft]]:
        """The soft alignments of each pair, one for each evidence."""
        self._check_lengths(pairs)
        layers = {evidence.layer for evidence in evidences}
        values = any(evidence.method != "weights" for evidence in evidences)
        with torch.no_grad(), record(self.model, ("cross",), layers=layers, values=values) as recording:
            self._forward(pairs)
        matrices = {
            (method, layer, head): METHODS[method](recording["cross", layer], head).float().cpu().numpy()  # (B, T, S)
            for method, layer, head in {(e.method, e.layer, e.head) for e in evidences}
        }
        for index, pair in enumerate(pairs):
            yield [self._to_words(matrices[e.method, e.layer, e.head][index], pair, e.step) for e in evidences]

    def _forward(self, pairs: list[Pair]) -> None:
        """Runs encoder and decoder without the output layer, which no attention needs.

        Both sides are padded on the right, whatever the task does in training: positions and masks follow the padding,
        and token j of a sentence is then at row or column j.
        """
        device = next(self.model.parameters()).device
        starts = [torch.cat([torch.tensor([self.start]), pair.target.tokens[:-1]]) for pair in pairs]
        src_tokens = collate_tokens([pair.source.tokens for pair in pairs], self.pad).to(device)
        prev_output_tokens = collate_tokens(starts, self.pad).to(device)
        encoder_out = self.model.encoder(src_tokens, src_lengths=src_tokens.ne(self.pad).sum(1))
        self.model.decoder.extract_features(prev_output_tokens, encoder_out=encoder_out)

    def _to_words(self, pieces: np.ndarray, pair: Pair, step: str) -> Soft:
        columns, source_ids = _places(pair.source)
        rows, target_ids = _places(pair.target)
        pieces_only = target_ids < len(pair.target.text)
        rows, target_ids = rows[pieces_only], target_ids[pieces_only]
        words = to_words(pieces[np.ix_(rows + STEPS[step], columns)], source_ids, target_ids, **self.merges)
        missing = len(pair.target.text) - len(words)  # words at the end that no piece spells
        words = np.pad(words, ((0, missing), (0, 0)))
        return Soft(words[:, :-1], words[:, -1])

    def _check_lengths(self, pairs: list[Pair]) -> None:
        limits = self.model.max_positions()
        for pair in pairs:
            for side, limit in zip(("source", "target"), limits):
                length = len(getattr(pair, side).tokens)
                if length > limit:
                    raise InputError(f"{pair.where}: the {side} has {length} pieces with </s>; the model takes {limit}")


def _places(sentence: Sentence) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the tokens, ordered by word, and their words; marks such as </s> form one last word."""
    ids = np.array(sentence.words)
    ids[ids < 0] = len(sentence.text)
    order = np.argsort(ids, kind="stable")
    return order, ids[order]
