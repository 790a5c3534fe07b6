"""What contributions to whole blocks (ALTI) cost, against a forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.models import BASE, SMALL, Shape, build_model, build_task, token_batch
from benchmarks.timing import Row, cost, interleaved
from fairseq_normalign.attention.alti import contributions, encoder_rollout, source_rollout
from fairseq_normalign.attention.recorder import record_blocks
from fairseq_normalign.names import KINDS


class Way(NamedTuple):
    """What is computed behind a forward pass."""

    layers: slice  # of source–target attention
    order: int = 1
    rollout: bool = False  # through all layers of the model


WAYS = {
    "alti of one layer": Way(slice(1)),
    "alti of all layers": Way(slice(None)),
    "alti-l2 of one layer": Way(slice(1), order=2),
    "alti-l2 of all layers": Way(slice(None), order=2),
    "alti-rollout of all layers": Way(slice(None), rollout=True),
}
TARGET = "alti of one layer"  # what `normalign align --method alti --layer N` computes


def plain(model: nn.Module, sample: dict[str, Tensor]) -> None:
    with torch.no_grad():
        model(**sample)


def with_contributions(model: nn.Module, sample: dict[str, Tensor], shape: Shape, way: Way) -> None:
    """A teacher-forced forward pass, output layer included, and contributions."""
    layers = range(shape.layers)[way.layers]
    kinds = tuple(KINDS) if way.rollout else ("cross",)
    with torch.no_grad():
        with record_blocks(model, kinds, layers=layers) as blocks:
            model(**sample)
        if way.rollout:
            source_rollout(blocks, encoder_rollout(blocks))
            return
        for layer in layers:
            contributions(blocks["cross", layer], way.order)


def alti(shapes: Sequence[Shape] = (BASE, SMALL), rounds: int = 5) -> Iterator[Row]:
    """Forward passes with contributions against forward passes alone."""
    for shape in shapes:
        model, sample = build_model(shape, build_task(shape)), token_batch(shape)
        tasks = {"plain": partial(plain, model, sample)}
        for name, way in WAYS.items():
            tasks[name] = partial(with_contributions, model, sample, shape, way)
        seconds = interleaved(tasks, rounds)
        for name in WAYS:
            target = "≤ 1.3" if name == TARGET else ""
            yield cost(f"forward + {name}, {shape.name}", seconds[name], seconds["plain"], target)
