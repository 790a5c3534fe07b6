"""What whole attention blocks cost: mixing ratios and norms of all pairs against a forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.models import BASE, TINY, Shape, build_model, build_task, token_batch
from benchmarks.timing import Row, cost, interleaved
from fairseq_normalign.attention.block import Block, mixing_ratios, pair_norms
from fairseq_normalign.attention.layer import Layer, layers_with
from fairseq_normalign.attention.recorder import record_blocks


def encode(
    encoder_model: nn.Module,
    sample: dict[str, Tensor],
    measure: Callable[[Block], object] | None,
    of_layer: Callable[[Layer], object] | None = None,
) -> None:
    """A forward pass of the encoder; then something of every block or layer, if asked for."""
    encoder = encoder_model.get_submodule("encoder")
    with torch.no_grad():
        if measure is None and of_layer is None:
            encoder(sample["src_tokens"], sample["src_lengths"])
            return
        with record_blocks(encoder_model, ("encoder",)) as blocks:
            encoder(sample["src_tokens"], sample["src_lengths"])
        for block in blocks.values():
            if measure is not None:
                measure(block)
        if of_layer is not None:
            for layer in layers_with(encoder_model, blocks).values():
                of_layer(layer)


def layer_parts(layer: Layer) -> list[Tensor]:
    """What mixing ratios of whole layers need."""
    return [layer.through(part) for part in layer.parts.values()]


def mixing(shapes: Sequence[Shape] = (BASE, TINY), rounds: int = 5) -> Iterator[Row]:
    """Forward passes of the encoder with mixing ratios, and with norms, against those alone."""
    measures = {"plain": None, "ratios": mixing_ratios, "pairs": pair_norms}
    for shape in shapes:
        model, sample = build_model(shape, build_task(shape)), token_batch(shape)
        tasks = {}
        for name, measure in measures.items():
            tasks[name] = partial(encode, model, sample, measure)
        tasks["layer parts"] = partial(encode, model, sample, None, layer_parts)
        seconds = interleaved(tasks, rounds)
        what = "encoder forward + "
        target = (
            "≤ 1.3" if shape == BASE else ""
        )  # of a tiny model, the overhead of many small steps
        yield cost(
            f"{what}mixing ratios, {shape.name}", seconds["ratios"], seconds["plain"], target
        )
        yield cost(f"{what}‖F(x)‖ of all pairs, {shape.name}", seconds["pairs"], seconds["plain"])
        yield cost(
            f"{what}mixing ratios of whole layers, {shape.name}",
            seconds["layer parts"],
            seconds["plain"],
            "≤ 3",
        )
        # Some ten forward passes each: a few rounds are enough.
        tasks = {
            "plain": tasks["plain"],
            "pairs": partial(encode, model, sample, None, Layer.pair_norms),
        }
        seconds = interleaved(tasks, max(2, rounds // 8))
        yield cost(
            f"{what}norms of all pairs of whole layers, {shape.name}",
            seconds["pairs"],
            seconds["plain"],
        )
