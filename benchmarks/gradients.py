"""What gradient methods cost: against a backward pass for each target position, and by sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from benchmarks.models import BASE, SMALL, TINY, Shape, build_model, build_task, token_batch
from benchmarks.timing import Row, cost, interleaved
from fairseq_normalign.attention.methods import Batch, method_of
from fairseq_normalign.host.pairs import Pair, Sentence
from fairseq_normalign.host.teacher_forcing import TeacherForcing

SAMPLES = 30  # of SmoothGrad


def random_batch(shape: Shape) -> Batch:
    """Random pairs, all as long as each other."""
    task = build_task(shape)
    sample = token_batch(shape)
    pairs = []
    for sides in zip(sample["src_tokens"], sample["prev_output_tokens"], strict=True):
        source, target = (Sentence(tokens, [-1] * len(tokens), []) for tokens in sides)
        pairs.append(Pair(source, target, "random"))
    return Batch(TeacherForcing(build_model(shape, task), task), pairs, {})


def one_by_one(batch: Batch) -> Tensor:
    """⟨E(x), ∂ log p(y_t)/∂E(x)⟩ by a backward pass for each t, from log p of the whole batch."""
    model = batch.forcing.model
    source, read, targets = batch.forcing.tensors(batch.pairs)
    embeddings = model.encoder.embed_tokens(source).detach().requires_grad_()
    lengths = torch.full((len(source),), source.shape[1])
    encoder_out = model.encoder(source, lengths, token_embeddings=embeddings)
    logits, _ = model.decoder(read, encoder_out=encoder_out)
    log_probs = logits.log_softmax(-1).gather(2, targets.unsqueeze(2)).squeeze(2)  # (B, T)
    rows = []
    for of_position in log_probs.sum(0):
        (gradient,) = torch.autograd.grad(of_position, embeddings, retain_graph=True)
        rows.append((embeddings.detach() * gradient).sum(-1))
    return torch.stack(rows, dim=1)


def ours(batch: Batch, method: str) -> None:
    method_of(method).compute(batch, None, None)


def gradients(
    shapes: Sequence[Shape] = (BASE._replace(batch=4), SMALL, TINY),
    smooth: Sequence[Shape] = (TINY._replace(batch=4),),
    rounds: int = 3,
) -> Iterator[Row]:
    """Several predictions in one backward pass against one; many samples of noise against one."""
    for shape in shapes:
        batch = random_batch(shape)
        tasks = {name: partial(ours, batch, name) for name in ("grad-input", "saliency")}
        seconds = interleaved({**tasks, "loop": partial(one_by_one, batch)}, rounds)
        for name in tasks:
            what = f"{name} against a backward pass for each position, {shape.name}"
            yield cost(what, seconds[name], seconds["loop"], "≤ 1.5")
    for shape in smooth:
        batch = random_batch(shape)
        samples = (1, SAMPLES)
        tasks = {str(count): partial(ours, batch, f"smoothgrad:{count}") for count in samples}
        seconds = interleaved(tasks, rounds)
        each = [time / SAMPLES for time in seconds[str(SAMPLES)]]
        what = f"each of {SAMPLES} samples of smoothgrad against a single one, {shape.name}"
        yield cost(what, each, seconds["1"], "≤ 1.1")
