"""What gates cost in training, and what removed heads save."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice, product

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.sequence_generator import SequenceGenerator
from torch import nn

from benchmarks.models import BASE, SMALL, TINY, Shape, build_model, build_task, texts, token_batch
from benchmarks.norms import build_aligner
from benchmarks.timing import Row, cost, interleaved, speedup
from fairseq_normalign.heads.loss_scores import losses, losses_without_each
from fairseq_normalign.host.attention_modules import head_names
from fairseq_normalign.host.pairs import text_pairs
from fairseq_normalign.names import KINDS, Head
from fairseq_normalign.plugin.criterion import L0Criterion, L0CriterionConfig

VARIANT = "transformer_normalign"
BEAM, OUTPUT = 4, 30  # of generation: all models write as many tokens


def training_step(model: nn.Module, criterion, sample: dict) -> None:
    """Forward and backward pass."""
    model.zero_grad()
    criterion(model, sample)[0].backward()


def gated(shapes: Sequence[Shape] = (BASE, TINY), rounds: int = 5) -> Iterator[Row]:
    """Training steps with gates on all heads against those of fairseq's own Transformer."""
    for shape in shapes:
        task, batch = build_task(shape), token_batch(shape)
        target = batch["prev_output_tokens"].roll(-1, dims=1)
        sample = {"net_input": batch, "target": target, "ntokens": target.numel()}
        pairs = {
            "plain": (
                build_model(shape, task).train(),
                LabelSmoothedCrossEntropyCriterion(task, False, 0.1),
            ),
            "gated": (
                build_model(shape, task, VARIANT, gate_heads="all").train(),
                L0Criterion(task, L0CriterionConfig(sentence_avg=False, label_smoothing=0.1)),
            ),
        }
        tasks = {name: partial(training_step, *pair, sample) for name, pair in pairs.items()}
        seconds = interleaved(tasks, rounds)
        yield cost(
            f"training step with gates, {shape.name}", seconds["gated"], seconds["plain"], "≤ 1.05"
        )


def some_heads(shape: Shape, every: int) -> str:
    """Every so many heads of a model, in turn, so that all layers keep about as many."""
    heads = (Head(*place) for place in product(KINDS, range(shape.layers), range(shape.heads)))
    return " ".join(map(str, islice(heads, 0, None, every)))


def generate(generator: SequenceGenerator, model: nn.Module, sample: dict) -> None:
    generator.generate([model], sample)


def pruned(shapes: Sequence[Shape] = (BASE, TINY), rounds: int = 5) -> Iterator[Row]:
    """Beam search with a third of the heads, and with none, against all of them.

    Also the size of the checkpoint.
    """
    for shape in shapes:
        task, batch = build_task(shape), token_batch(shape)
        sample = {"net_input": {name: batch[name] for name in ("src_tokens", "src_lengths")}}
        alive = {
            "all heads": "all",
            "a third of the heads": some_heads(shape, 3),
            "no heads": "none",
        }
        models = {
            name: build_model(shape, task, VARIANT, alive_heads=heads)
            for name, heads in alive.items()
        }
        tasks = {}
        for name, model in models.items():
            lengths = {"beam_size": BEAM, "max_len_a": 0, "max_len_b": OUTPUT, "min_len": OUTPUT}
            generator = SequenceGenerator([model], task.target_dictionary, **lengths)
            tasks[name] = partial(generate, generator, model, sample)
        seconds = interleaved(tasks, rounds)
        sizes = {name: megabytes(model) for name, model in models.items()}
        first, *others = alive
        for name in others:
            target = "> 1" if name == others[0] else ""
            yield speedup(
                f"generation with {name}, {shape.name}", seconds[name], seconds[first], target
            )
            yield Row(
                f"checkpoint with {name}, {shape.name}",
                sizes[name],
                sizes[first],
                "MB",
                sizes[name] / sizes[first],
                "< 1",
            )


def ablation(shapes: Sequence[Shape] = (SMALL,), rounds: int = 7) -> Iterator[Row]:
    """The loss without each head, against as many whole passes."""
    for shape in shapes:
        aligner = build_aligner(shape)
        by_length = sorted(
            text_pairs(texts(shape, 160), aligner.reader), key=lambda pair: pair.length
        )
        pairs = by_length[80 : 80 + shape.batch]  # of about the same length, as in a run
        heads = head_names(aligner.forcing.model)

        def whole(forcing=aligner.forcing, pairs=pairs, heads=heads) -> None:
            with torch.no_grad():
                for _ in heads:
                    losses(forcing, pairs)

        tasks = {
            "ablated": partial(losses_without_each, aligner.forcing, pairs, heads),
            "whole": whole,
        }
        seconds = interleaved(tasks, rounds)
        what = f"ablation of {len(heads)} heads, {shape.name}, against as many forwards"
        yield cost(what, seconds["ablated"], seconds["whole"], "≤ 0.6")


def megabytes(model: nn.Module) -> float:
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    return file.tell() / 1e6
