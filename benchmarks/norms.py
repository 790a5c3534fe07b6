"""What norms cost: against a forward pass, against vectors built in full, and over a corpus."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from benchmarks.models import BASE, SMALL, TINY, Shape, build_model, build_task, texts, token_batch
from benchmarks.timing import Row, cost, interleaved, speedup
from fairseq_normalign.alignment.aligner import NormAligner
from fairseq_normalign.attention.contributions import Norms, norms
from fairseq_normalign.attention.recorder import KINDS, record, recorded
from fairseq_normalign.host.batches import map_batches
from fairseq_normalign.host.pairs import Pair, PairReader, text_pairs
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.text.links import format_links

VARIANTS = {"plain": (), "cross": ("cross",), "all": KINDS}  # which attentions are recorded


def extract(model, sample: dict[str, Tensor], kinds: Sequence[str]) -> list[Norms]:
    """A teacher-forced forward pass, and the norms of all layers of some attentions.

    The output layer is included.
    """
    with torch.no_grad():
        if not kinds:
            model(**sample)
            return []
        with record(model, kinds) as recording:
            model(**sample)
        return [recorded.norms for recorded in recording.values()]


def extraction(shapes: Sequence[Shape] = (BASE, TINY), rounds: int = 5) -> Iterator[Row]:
    """Forward passes with norms against forward passes alone."""
    for shape in shapes:
        model, sample = build_model(shape, build_task(shape)), token_batch(shape)
        tasks = {name: partial(extract, model, sample, kinds) for name, kinds in VARIANTS.items()}
        seconds = interleaved(tasks, rounds)
        plain, cross, everything = (seconds[name] for name in ("plain", "cross", "all"))
        what = "forward + norms of"
        yield cost(f"{what} cross-attention, {shape.name}", cross, plain, "≤ 1.10")
        yield cost(f"{what} all attentions, {shape.name}", everything, plain, "≤ 1.35")


def early(shapes: Sequence[Shape] = (SMALL, BASE), rounds: int = 5) -> Iterator[Row]:
    """Norms of one layer, behind which nothing is run, against a forward without output layer."""
    for shape in shapes:
        aligner = build_aligner(shape)
        pairs = list(text_pairs(texts(shape, shape.batch), aligner.reader))

        def plain(aligner=aligner, pairs=pairs) -> None:
            with torch.no_grad():
                aligner.forcing.forward(pairs)

        def norms_of(layer: int, aligner=aligner, pairs=pairs) -> list[Norms]:
            by_name = recorded(aligner.forcing, pairs, ["cross"], layers=[layer])
            return [of_layer.norms for of_layer in by_name.values()]

        layers = (1, shape.layers)
        tasks = {layer: partial(norms_of, layer - 1) for layer in layers}
        seconds = interleaved({"plain": plain, **tasks}, rounds)
        for layer in layers:
            what = f"norms of layer {layer} of {shape.layers}, {shape.name}, against a forward"
            target = "≤ 0.75" if layer == 1 else ""
            yield cost(what, seconds[layer], seconds["plain"], target)


def materialised(weights: Tensor, values: Tensor, out_weight: Tensor) -> Norms:
    """The formulas as they stand: builds every α f(x), (B, H, T, S, C)."""
    transformed = values @ out_weight  # (B, H, S, C)
    vectors = weights.unsqueeze(-1) * transformed.unsqueeze(2)
    return Norms(transformed.norm(dim=-1), vectors.norm(dim=-1), vectors.sum(1).norm(dim=-1))


def one_by_one(weights: Tensor, values: Tensor, out_weight: Tensor) -> list[Norms]:
    """The same, a sentence at a time."""
    return [
        materialised(weights[b : b + 1], values[b : b + 1], out_weight) for b in range(len(weights))
    ]


def attention_parts(shape: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """Weights, values and W_O in the layout that fairseq's attention leaves them in."""
    torch.manual_seed(0)
    batch, length, heads, width = shape.batch, shape.length, shape.heads, shape.width
    weights = torch.randn(batch, heads, length, length).softmax(-1)
    values = torch.randn(length, batch, heads, width // heads).permute(1, 2, 0, 3)
    out_weight = torch.randn(width, width).t().unflatten(0, (heads, -1)) / width**0.5
    return weights, values, out_weight


def computation(shapes: Sequence[Shape] = (BASE, TINY), rounds: int = 5) -> Iterator[Row]:
    """Norms of one attention against the same from vectors that are built in full."""
    for shape in shapes:
        parts = attention_parts(shape)
        for ours, reference in zip(norms(*parts), materialised(*parts), strict=True):
            torch.testing.assert_close(ours, reference, rtol=1e-4, atol=1e-6)
        ways = {"ours": norms, "a batch": materialised, "a sentence": one_by_one}
        seconds = interleaved({name: partial(way, *parts) for name, way in ways.items()}, rounds)
        target = "≥ 15" if shape is BASE else ""
        for name in ("a batch", "a sentence"):
            what = f"norms against vectors built {name} at a time, {shape.name}"
            yield speedup(what, seconds["ours"], seconds[name], target)


def build_aligner(shape: Shape) -> NormAligner:
    task = build_task(shape)
    return NormAligner(
        TeacherForcing(build_model(shape, task), task),
        PairReader(task, scheme="subword_nmt"),
        layer=2,
        step="input",
    )


def align(aligner: NormAligner, sentences: list[tuple[str, str]], batch_tokens: int) -> None:
    """From text to a file of links."""
    options = replace(aligner.options, batch_tokens=batch_tokens)
    aligner = NormAligner(aligner.forcing, aligner.reader, options)
    with tempfile.TemporaryFile("w") as file:
        for links in aligner.align_many(sentences):
            file.write(format_links(links) + "\n")


def forward_only(forcing: TeacherForcing, pairs: list[Pair], batch_tokens: int) -> None:
    """The same forward passes and nothing else."""

    def run(batch: list[Pair]) -> list[Pair]:
        forcing.forward(batch)
        return batch

    with torch.no_grad():
        for _ in map_batches(pairs, run, max_tokens=batch_tokens):
            pass


def aligner_tasks(
    aligner: NormAligner, sentences: list, batch_tokens: int
) -> dict[str, Callable[[], None]]:
    pairs = list(text_pairs(sentences, aligner.reader))
    return {
        "align": partial(align, aligner, sentences, batch_tokens),
        "forward": partial(forward_only, aligner.forcing, pairs, batch_tokens),
    }


def corpus(
    cases: Sequence[tuple[Shape, int]] = (
        (TINY, 1_000),
        (TINY, 4_000),
        (SMALL, 1_000),
    ),
    batch_tokens: int = 4000,
) -> Iterator[Row]:
    """From text to links, against the model's forward passes, for corpora of several sizes."""
    for shape, size in cases:
        aligner = build_aligner(shape)
        tasks = aligner_tasks(aligner, list(texts(shape, size)), batch_tokens)
        seconds = interleaved(tasks, rounds=max(1, min(4, 4_000 // size)))
        align_times = [1000 * time / size for time in seconds["align"]]
        forward_times = [1000 * time / size for time in seconds["forward"]]
        what = f"text to links against forward, {shape.name}, each 1,000 of {size:,} pairs"
        yield cost(what, align_times, forward_times)


def throughput(
    shape: Shape = TINY,
    size: int = 500,
    tokens: Sequence[int] = (1, 125, 500, 2000, 8000),
    rounds: int = 3,
) -> Iterator[Row]:
    """From text to links in larger and larger batches, against one sentence at a time."""
    aligner = build_aligner(shape)
    sentences = list(texts(shape, size))
    tasks = {limit: partial(align, aligner, sentences, limit) for limit in tokens}
    seconds = interleaved(tasks, rounds)
    for limit in tokens[1:]:
        what = f"batches of {limit:,} tokens against single pairs, {shape.name}, {size:,} pairs"
        yield speedup(what, seconds[limit], seconds[tokens[0]])
