"""What combining all evidences of two models costs, against their forward passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.models import BASE, SMALL, TINY, Shape, texts
from benchmarks.norms import build_aligner, forward_only
from benchmarks.timing import Row, cost, interleaved
from fairseq_normalign import CombinedAligner
from fairseq_normalign.alignment.aligner import DecidedAligner
from fairseq_normalign.alignment.learned import CLUES
from fairseq_normalign.host.pairs import Pair


def build_combined(shape: Shape, pairs: Sequence[tuple[str, str]]) -> DecidedAligner:
    """Two random models that have learned; every clue counts, as it does on real models."""
    forward, backward = build_aligner(shape), build_aligner(shape)
    with torch.no_grad():  # a model is not its own reverse model
        next(backward.forcing.model.parameters()).mul_(1.001)
    combined = CombinedAligner(forward, backward)
    decided = combined.decide(pairs)
    model = decided.decision.model._replace(clue_weights=np.ones(len(CLUES)))
    return DecidedAligner(combined, decided.decision._replace(model=model))


def forward(combined: DecidedAligner, streams: Sequence[list[Pair]]) -> None:
    """The forward passes of both models alone."""
    for aligner, pairs in zip(combined.models, streams, strict=True):
        forward_only(aligner.forcing, pairs, aligner.options.batch_tokens)


def align(combined: DecidedAligner, streams: Sequence[list[Pair]]) -> None:
    for soft in combined.run(*streams):
        combined.links(soft)


def combination(
    shapes: Sequence[Shape] = (SMALL, TINY), size: int = 200, rounds: int = 5
) -> Iterator[Row]:
    """Links of two models by what was learned, against forward passes of both."""
    for shape in shapes:
        pairs = list(texts(shape, size))
        combined = build_combined(shape, pairs)
        streams = [list(stream) for stream in combined.read(pairs)]
        tasks = {
            "forward": partial(forward, combined, streams),
            "align": partial(align, combined, streams),
        }
        seconds = interleaved(tasks, rounds)
        what = f"links by all evidences of two models, {shape.name}, after learning"
        aim = "≤ 1.15" if shape is SMALL else "≤ 1.5"
        yield cost(what, seconds["align"], seconds["forward"], aim)


def interactive(
    shapes: Sequence[Shape] = (BASE, SMALL), size: int = 20, rounds: int = 5
) -> Iterator[Row]:
    """One pair at a time, from text to links, against forward passes of both models."""
    for shape in shapes:
        pairs = list(texts(shape, size))
        combined = build_combined(shape, pairs)
        one_by_one = [[list(stream) for stream in combined.read([pair])] for pair in pairs]
        tasks = {
            "forward": partial(_each, partial(forward, combined), one_by_one),
            "align": partial(_each, lambda pair, aligner=combined: aligner.align(*pair), pairs),
        }
        seconds = interleaved(tasks, rounds)
        what = f"links of one pair at a time by two models, {shape.name}, after learning"
        yield cost(what, seconds["align"], seconds["forward"], "≤ 1.3")


def _each(task: Callable[[Any], object], items: Sequence[Any]) -> None:
    for item in items:
        task(item)
