"""What relevance costs.

All predictions at once against one at a time, and pooled against a training step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.models import BASE, SMALL, TINY, Shape, build_model, build_task, texts, token_batch
from benchmarks.norms import build_aligner
from benchmarks.timing import Row, cost, interleaved, speedup
from fairseq_normalign.attention.lrp_rules import RULES, rule_set
from fairseq_normalign.attention.lrp_walk import _Walk, propagate
from fairseq_normalign.attention.methods import method_of
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.attention.soft_alignments import soft_alignments
from fairseq_normalign.host.pairs import Pair, text_pairs
from fairseq_normalign.host.teacher_forcing import TeacherForcing

AIMS = {  # of soft methods, in passes with norms
    "layer-norms": "",
    "value-zeroing": "",
    "value-zeroing-ff": "",
    "lrp-epsilon": "≤ 15",
    "lrp-attnlrp": "≤ 15",
}
BOUND = ("epsilon", "attnlrp")  # the rules whose ratios have targets


def exact(model: nn.Module, sample: dict[str, Tensor], rules: str) -> Tensor:
    """All predictions of a batch at once."""
    return propagate(model, sample["src_tokens"], sample["prev_output_tokens"], rules=rules).source


def one_by_one(model: nn.Module, sample: dict[str, Tensor], rules: str) -> Tensor:
    """The same rules, one target position at a time, no row being left out."""
    sources = []
    for position in range(sample["prev_output_tokens"].shape[1]):
        with torch.no_grad():
            walk = _Walk(model, rule_set(rules), sample["src_tokens"], sample["prev_output_tokens"])
            started = walk.started(None)
            alone = torch.zeros_like(started)
            alone[:, position] = started[:, position]
            sources.append(walk.relevance([alone.unsqueeze(1)]).source)
    return torch.cat(sources, dim=1)


def pooled(model: nn.Module, sample: dict[str, Tensor], rules: str) -> None:
    """All predictions of a sentence together."""
    propagate(model, sample["src_tokens"], sample["prev_output_tokens"], rules=rules, pooled=True)


def training_step(model: nn.Module, sample: dict[str, Tensor]) -> None:
    """Forward, cross-entropy and gradients of all parameters."""
    model.zero_grad()
    logits = model(**sample)[0]
    F.cross_entropy(
        logits.flatten(0, 1), sample["prev_output_tokens"].flatten(), reduction="sum"
    ).backward()


def trained_like(model: nn.Module) -> None:
    """Lets feed-forward nets use a tenth of their units at a time, as ReLU does once trained."""
    for module in model.modules():
        if hasattr(module, "fc1"):
            inner, width = module.fc1.weight.shape
            deviation = (2 * width / (inner + width)) ** 0.5  # of a unit, by how fairseq starts
            module.fc1.bias.data.fill_(-1.28 * deviation)


def methods(shapes: Sequence[Shape] = (SMALL,), rounds: int = 3) -> Iterator[Row]:
    """Soft alignments of one layer, or of the whole model, against norms of the last layer."""
    for shape in shapes:
        aligner = build_aligner(shape)
        trained_like(aligner.forcing.model)
        pairs = list(text_pairs(texts(shape, shape.batch), aligner.reader))
        tasks = {}
        for name in ("norms", *AIMS):
            layer = shape.layers - 1 if method_of(name).layers else None
            evidence = Evidence(name, layer, "output")
            tasks[name] = partial(all_softs, aligner.forcing, pairs, evidence)
        seconds = interleaved(tasks, rounds)
        for name, aim in AIMS.items():
            yield cost(f"{name} against norms, {shape.name}", seconds[name], seconds["norms"], aim)


def all_softs(forcing: TeacherForcing, pairs: list[Pair], evidence: Evidence) -> None:
    for _ in soft_alignments(forcing, pairs, [evidence]):
        pass


def relevance(
    shapes: Sequence[Shape] = (BASE._replace(batch=1), TINY), rounds: int = 2
) -> Iterator[Row]:
    """Exact relevance against a loop over positions; pooled relevance against two passes.

    The passes are forward and backward.
    """
    for shape in shapes:
        model, sample = build_model(shape, build_task(shape)), token_batch(shape)
        # A loop with voita's rules takes minutes on the larger model.
        for rules in RULES if shape.width < BASE.width else BOUND:
            ways = {"ours": exact, "loop": one_by_one}
            tasks = {name: partial(way, model, sample, rules) for name, way in ways.items()}
            seconds = interleaved(tasks, rounds if rules in BOUND else 1)
            target = "≥ 5" if rules in BOUND else ""
            what = f"{rules} relevance, all positions at once against one at a time, {shape.name}"
            yield speedup(what, seconds["ours"], seconds["loop"], target)
        tasks = {rules: partial(pooled, model, sample, rules) for rules in RULES}
        seconds = interleaved({**tasks, "step": partial(training_step, model, sample)}, rounds)
        for rules in RULES:
            target = "≤ 6" if rules in BOUND else ""
            what = f"{rules} relevance, pooled, against forward and backward, {shape.name}"
            yield cost(what, seconds[rules], seconds["step"], target)
