"""Models of which one part is looked at: translation, masked and language models alike."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fairseq_normalign.attention.states import PARTS, States
from fairseq_normalign.files import short_names
from fairseq_normalign.host.attention_modules import layers_of
from fairseq_normalign.host.checkpoint import load_single
from fairseq_normalign.host.lengths import fitted
from fairseq_normalign.host.pairs import PairReader, text_pairs
from fairseq_normalign.host.raw_corpus import corpus
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.layers.token_table import ReadText


def load_part(args: argparse.Namespace, name: str, path: str, part: str | None = None) -> ReadText:
    """A part of the model of ``path``, by default its encoder, or else its decoder; no text yet."""
    model, task = load_single(path, args.data, dict(args.model_overrides))
    if args.fp16:
        model = model.half()
    elif args.bf16:
        model = model.bfloat16()
    if part is None:
        there = [name for name in PARTS if layers_of(getattr(model, name, None))]
        part = there[0] if there else PARTS[0]
    forcing = TeacherForcing(model.to(args.device), task, attention=part)
    return ReadText(name, States(forcing), PairReader.from_args(task, args), [])


def read_corpus(args: argparse.Namespace) -> list[ReadText]:
    """The first sentences of the corpus that the options name, as each model reads them."""
    models = zip(short_names(args.path), args.path, strict=True)
    parts = [load_part(args, name, path, args.part) for name, path in models]
    need_target = not all(part.states.reads_source for part in parts)
    same_way = [False] * len(parts)
    read = corpus(args, parts, swapped=same_way, need_target=need_target, limit=args.limit)
    streams = zip(parts, read.streams, strict=True)
    return [part._replace(pairs=list(pairs)) for part, pairs in streams]


def read_sentences(
    args: argparse.Namespace, name: str, path: str, sentences: Sequence[Sequence[str]]
) -> ReadText:
    """Sentences of words as a model reads them that needs no target."""
    part = load_part(args, name, path)
    pairs = text_pairs(((words, None) for words in sentences), part.reader, name="treebank")
    return part._replace(pairs=fitted(pairs, part.forcing.limits, args.too_long))
