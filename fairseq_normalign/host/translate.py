"""Beam search over sentences, as ``fairseq-generate`` does it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from fairseq.data.data_utils import collate_tokens, post_process
from fairseq.models import FairseqEncoderDecoderModel

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.batches import map_batches
from fairseq_normalign.host.pairs import Pair, PairReader
from fairseq_normalign.host.special_tokens import task_options

SEARCH = {"beam": 4, "lenpen": 1.0, "max_len_a": 1.2, "max_len_b": 10}  # fairseq's names

UNKNOWN = "⁇"  # for <unk> in a reference: the <unk> of a translation is no match


def check_translates(model) -> None:
    if not isinstance(model, FairseqEncoderDecoderModel):
        raise InputError(
            f"{type(model).__name__} has no encoder and decoder; expected a model that translates"
        )


class Translator:
    """A model that translates batches. It is made ready for that alone: it cannot be trained or
    aligned any more.

    Args:
        search: fairseq's options of beam search, where they are not to be those of ``SEARCH``.
    """

    def __init__(self, model, reader: PairReader, search: Mapping[str, Any] | None = None):
        check_translates(model)
        model.make_generation_fast_(
            need_attn=False
        )  # as fairseq-generate does: averages of attention are not needed
        self.model, self.reader, self.task = model, reader, reader.task
        self.generator = self.task.build_generator(
            [model], Namespace(**{**SEARCH, **(search or {})})
        )
        self.marks = getattr(self.generator, "symbols_to_strip_from_output", {self.generator.eos})

    def __call__(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """The best hypothesis for each source, as tokens; targets are not looked at."""
        limit = self.model.max_positions()[0]
        for pair in pairs:
            if len(pair.source.tokens) > limit:
                found = len(pair.source.tokens)
                raise InputError(
                    f"{pair.where}: the source has {found} pieces with </s>; the model takes "
                    f"{limit}"
                )
        found = self.task.inference_step(
            self.generator, [self.model], {"net_input": self._input(pairs)}
        )
        return [beam[0]["tokens"].tolist() for beam in found]

    def _input(self, pairs: Sequence[Pair]) -> dict:
        pad, left = (
            self.task.source_dictionary.pad(),
            getattr(task_options(self.task), "left_pad_source", True),
        )
        device = next(self.model.parameters()).device
        src_tokens = collate_tokens(
            [pair.source.tokens for pair in pairs], pad, left_pad=bool(left)
        ).to(device)
        return {"src_tokens": src_tokens, "src_lengths": src_tokens.ne(pad).sum(1)}

    def text(self, tokens: Sequence[int]) -> str:
        """A hypothesis as text."""
        return joined(tokens, self.reader, marks=self.marks)

    def translations(self, pairs: Iterable[Pair], *, max_tokens: int = 4000) -> Iterator[str]:
        """The translation of each source, in input order."""
        return map(self.text, map_batches(pairs, self, max_tokens=max_tokens))


def joined(
    tokens: Sequence[int] | torch.Tensor, reader: PairReader, *, marks: Collection[int] = ()
) -> str:
    """Target tokens as text: pieces joined to words, and words detokenised if the model has its own
    tokeniser."""
    pieces = reader.task.target_dictionary.string(tokens, extra_symbols_to_ignore=marks)
    if reader.bpe is not None:
        text = reader.bpe.decode(pieces)
    elif reader.scheme == "gpt2":
        raise InputError(
            "byte-level pieces are joined by the BPE itself: name it with --bpe and its files"
        )
    else:
        text = post_process(pieces, reader.scheme)
    return text if reader.tokenizer is None else reader.tokenizer.decode(text)


def reference(pair: Pair, reader: PairReader) -> str:
    """The target as text, joined as translations are."""
    pieces = [
        token
        for token, word in zip(pair.target.tokens, pair.target.words, strict=True)
        if word >= 0
    ]
    return joined(pieces, reader).replace("<unk>", UNKNOWN)
