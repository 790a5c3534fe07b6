"""Models of which one part is looked at: translation, masked and language models alike."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fairseq_normalign.attention.states import States
from fairseq_normalign.files import short_names
from fairseq_normalign.host.lengths import fitted
from fairseq_normalign.host.options import load
from fairseq_normalign.host.pairs import text_pairs
from fairseq_normalign.host.raw_corpus import corpus
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.layers.token_table import ReadText


def load_part(args: argparse.Namespace, name: str, path: str, part: str | None = None) -> ReadText:
    """A part of the model of ``path``, by default its encoder, or else its decoder; no text yet."""
    of_one = argparse.Namespace(**{**vars(args), "path": path})
    forcing, reader = load(of_one, attention=part or "all")
    if forcing.attention == "cross":  # a model with both parts
        forcing = TeacherForcing(forcing.model, reader.task, attention="encoder")
    return ReadText(name, States(forcing), reader, [])


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
