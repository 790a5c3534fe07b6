"""Models of which one part is looked at: translation, masked and language models alike."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import islice

from fairseq_normalign.attention.states import PARTS, States
from fairseq_normalign.files import short_names
from fairseq_normalign.host.attention_modules import layers_of
from fairseq_normalign.host.checkpoint import load_single
from fairseq_normalign.host.options import corpus, fitted
from fairseq_normalign.host.pairs import PairReader, text_pairs
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.layers.token_table import ReadText


def load_part(
    args: argparse.Namespace, path: str, part: str | None = None
) -> tuple[States, PairReader]:
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
    return States(forcing), PairReader.from_args(task, args)


def read_corpus(args: argparse.Namespace) -> list[ReadText]:
    """The first sentences of the corpus that the options name, as each model reads them."""
    parts = [load_part(args, path, args.part) for path in args.path]
    streams = []
    for states, reader in parts:
        pairs = corpus(args, reader, need_target=not states.reads_source).pairs
        streams.append(islice(pairs, args.limit))
    read = fitted(args, streams, [states.forcing for states, _ in parts])
    texts = []
    for name, part, pairs in zip(short_names(args.path), parts, read, strict=True):
        texts.append(ReadText(name, *part, list(pairs)))
    return texts


def read_sentences(
    args: argparse.Namespace, name: str, path: str, sentences: Sequence[Sequence[str]]
) -> ReadText:
    """Sentences of words as a model reads them that needs no target."""
    states, reader = load_part(args, path)
    pairs = text_pairs(((words, None) for words in sentences), reader, name="treebank")
    (fitting,) = fitted(args, [pairs], [states.forcing])
    return ReadText(name, states, reader, list(fitting))
