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
from fairseq_normalign.host.lengths import Limits, fitted, limits_of
from fairseq_normalign.host.pairs import Pair, PairReader
from fairseq_normalign.host.special_tokens import task_options
from fairseq_normalign.options import SEARCH

UNKNOWN = "⁇"  # for <unk> in a reference: the <unk> of a translation is no match


def check_translates(model) -> None:
    if not isinstance(model, FairseqEncoderDecoderModel):
        raise InputError(
            f"{type(model).__name__} has no encoder and decoder; expected a model that translates"
        )


class Translator:
    """A model that translates batches.

    It is made ready for that alone: it cannot be trained or aligned any more.

    Args:
        search: fairseq's options of beam search, where they are not to be those of ``SEARCH``.
    """

    def __init__(self, model, reader: PairReader, search: Mapping[str, Any] | None = None):
        check_translates(model)
        # As fairseq-generate does: averages of attention are not needed.
        model.make_generation_fast_(need_attn=False)
        self.model, self.reader, self.task = model, reader, reader.task
        self.limits = Limits(limits_of(model).source)
        options = Namespace(**{**SEARCH, **(search or {})})
        self.generator = self.task.build_generator([model], options)
        self.marks = getattr(self.generator, "symbols_to_strip_from_output", {self.generator.eos})

    def __call__(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """The best hypothesis for each source, as tokens; none for a skipped pair.

        Targets are not looked at.
        """
        wanted = [pair for pair in fitted(pairs, self.limits) if not pair.skipped]
        hypotheses = iter(self._search(wanted) if wanted else [])
        return [[] if pair.skipped else next(hypotheses) for pair in pairs]

    def _search(self, pairs: Sequence[Pair]) -> list[list[int]]:
        pad = self.task.source_dictionary.pad()
        left_pad = bool(getattr(task_options(self.task), "left_pad_source", True))
        device = next(self.model.parameters()).device
        sources = [pair.source.tokens for pair in pairs]
        src_tokens = collate_tokens(sources, pad, left_pad=left_pad).to(device)
        inputs = {"src_tokens": src_tokens, "src_lengths": src_tokens.ne(pad).sum(1)}
        beams = self.task.inference_step(self.generator, [self.model], {"net_input": inputs})
        return [beam[0]["tokens"].tolist() for beam in beams]

    def text(self, tokens: Sequence[int]) -> str:
        """A hypothesis as text."""
        return joined(tokens, self.reader, marks=self.marks)

    def translations(self, pairs: Iterable[Pair], *, max_tokens: int = 4000) -> Iterator[str]:
        """The translation of each source, in input order; that of a skipped one is empty."""
        return map(self.text, map_batches(pairs, self, max_tokens=max_tokens))


def joined(
    tokens: Sequence[int] | torch.Tensor, reader: PairReader, *, marks: Collection[int] = ()
) -> str:
    """Target tokens as text: pieces joined to words, words detokenised by the model's tokeniser."""
    pieces = reader.task.target_dictionary.string(tokens, extra_symbols_to_ignore=marks)
    bpe = reader.target.segmentation.bpe
    if bpe is not None:
        text = bpe.decode(pieces)
    elif reader.scheme == "gpt2":
        raise InputError("byte-level pieces are joined by the BPE itself; use --bpe with its files")
    else:
        text = post_process(pieces, reader.scheme)
    # fairseq's tokeniser of source text is the one that puts target text together.
    tokenizer = reader.source.segmentation.tokenizer
    return text if tokenizer is None else tokenizer.decode(text)


def reference(pair: Pair, reader: PairReader) -> str:
    """The target as text, joined as translations are."""
    tokens = zip(pair.target.tokens, pair.target.words, strict=True)
    tokens_of_words = [token for token, word in tokens if word >= 0]
    return joined(tokens_of_words, reader).replace("<unk>", UNKNOWN)
