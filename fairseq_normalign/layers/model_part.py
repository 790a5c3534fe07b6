"""Models of which one part is looked at: translation, masked and language models alike."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from fairseq_normalign.attention.states import PARTS, States
from fairseq_normalign.host.attention_modules import layers_of
from fairseq_normalign.host.checkpoint import load_single
from fairseq_normalign.host.lengths import fitted
from fairseq_normalign.host.pairs import Pair, PairReader, text_pairs
from fairseq_normalign.host.raw_corpus import corpus
from fairseq_normalign.host.teacher_forcing import TeacherForcing


class Part(NamedTuple):
    """One part of a model, and how the model reads text."""

    states: States
    reader: PairReader

    @property
    def forcing(self) -> TeacherForcing:
        return self.states.forcing


def load_part(args: argparse.Namespace, path: str, part: str | None = None) -> Part:
    """A part of the model of ``path``; by default its encoder, or else its decoder."""
    model, task = load_single(path, args.data, dict(args.model_overrides))
    if args.fp16:
        model = model.half()
    elif args.bf16:
        model = model.bfloat16()
    if part is None:
        there = [name for name in PARTS if layers_of(getattr(model, name, None))]
        part = there[0] if there else PARTS[0]
    forcing = TeacherForcing(model.to(args.device), task, attention=part)
    return Part(States(forcing), PairReader.from_args(task, args))


def texts_of(
    args: argparse.Namespace, parts: Sequence[Part], limit: int | None
) -> list[list[Pair]]:
    """The first sentences of the corpus that the options name, as each model reads them."""
    need_target = not all(part.states.reads_source for part in parts)
    same_way = [False] * len(parts)
    read = corpus(args, parts, swapped=same_way, need_target=need_target, limit=limit)
    return [list(pairs) for pairs in read.streams]


def read_sentences(
    args: argparse.Namespace, part: Part, sentences: Sequence[Sequence[str]]
) -> list[Pair]:
    """Sentences of words as a model reads them that needs no target."""
    pairs = text_pairs(((words, None) for words in sentences), part.reader, name="treebank")
    return fitted(pairs, part.forcing.limits, args.too_long)
