"""What a small seeded model says, as it was when the numbers in ``regression.json`` were stored.

A change of shape must not move them. ``python -m tests.test_regression`` stores them anew, after a
change that is meant to.
"""

import json
import warnings
from pathlib import Path

import pytest
import torch

from fairseq_normalign import BlockOptions, CombinedAligner, NormAligner, profile, survey_blocks
from fairseq_normalign.attention.methods import METHODS, methods_without_files
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.attention.soft_alignments import soft_alignments
from fairseq_normalign.heads.pruning import evaluation_gates, sample_gates
from fairseq_normalign.host.attention_modules import keep_heads
from fairseq_normalign.host.compat import drop_copies
from fairseq_normalign.host.pairs import PairReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.layers.mixing import MixingResult
from fairseq_normalign.layers.statistics import StatisticsResult
from fairseq_normalign.names import KINDS, Head
from fairseq_normalign.plugin.criterion import L0Criterion, L0CriterionConfig
from fairseq_normalign.plugin.gating import gates
from fairseq_normalign.text.links import Gold
from tests.conftest import ToyTask, build_model

STORED = Path(__file__).with_name("regression.json")
TEXTS = [
    ("w1@@ w2 w3 w7", "w4 w5@@ w6@@ w7"),
    ("w3 w11 w12", "w9 w8"),
    ("w2 w2 w5", "w1 w20 w21 w22"),
    ("w28 w27@@ w26", "w13 w14@@ w15"),
]
SCORES = ["relevance", "confidence", "norm-confidence", "norm", "importance", "ablation", "AER"]


def random_model(seed: int, task):
    """A small model none of whose parameters is zero or one."""
    model = build_model(task=task)
    drop_copies(model)  # or fairseq 0.12.2 would draw other numbers than later versions
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model


def aligner(seed: int = 2, *, languages: str = "ab", **options) -> NormAligner:
    task = ToyTask()
    task.args.source_lang, task.args.target_lang = languages
    reader = PairReader(task, scheme="subword_nmt")
    return NormAligner(TeacherForcing(random_model(seed, task), task), reader, **options)


def measured() -> dict:
    """Everything, as JSON has it."""
    one, other = aligner(), aligner(3, languages="ba")
    pairs = list(one.read(TEXTS)[0])
    return {
        "soft": soft_matrices(one, pairs),
        "links": links(one, other),
        "heads": head_scores(one, pairs),
        "layers": layer_tables(one, pairs),
        "pruned": pruned_logits(one, pairs),
        "gates": gate_results(),
    }


def soft_matrices(one: NormAligner, pairs: list) -> dict:
    matrices = {}
    for name in methods_without_files():
        method = METHODS[name]
        for layer in (0, 1) if method.layers else (None,):
            for step in method.steps:
                evidence = Evidence(name, layer, step)
                (softs,) = soft_alignments(one.forcing, pairs[:1], [evidence])
                matrices[f"{name}.{layer}.{step}"] = softs[0].words.tolist()
    return matrices


def links(one: NormAligner, other: NormAligner) -> dict:
    lines = {"auto": list(one.align_many(TEXTS))}
    lines["signature"] = one.signature()
    for extract in ("argmax", "mutual-argmax", "itermax", "threshold", "relative"):
        extracted = aligner(layer=2, step="output", extract=extract, eos="skip")
        lines[extract] = list(extracted.align_many(TEXTS))
    for combine in ("product", "harmonic", "mean", "learned"):
        lines[combine] = list(CombinedAligner(one, other, combine=combine).align_many(TEXTS))
    return json.loads(json.dumps(lines))


def head_scores(one: NormAligner, pairs: list) -> dict:
    gold = [Gold({(0, 0)}, {(0, 0), (1, 1)}) for _ in pairs]
    scores = profile(one, pairs, SCORES, gold=gold).scores
    return {
        name: {str(head): value for head, value in by_head.items()}
        for name, by_head in scores.items()
    }


def layer_tables(one: NormAligner, pairs: list) -> dict:
    """Every named table of mixing and statistics."""
    survey = survey_blocks(one, pairs, BlockOptions(statistics=True))
    tables = MixingResult(survey.mixing, {}).tables()
    tables |= StatisticsResult(survey.statistics, {}).tables()
    return {name: json.loads(json.dumps(table.rows)) for name, table in tables.items()}


def pruned_logits(one: NormAligner, pairs: list) -> list:
    """What the model without some of its heads says of the first pair."""
    task = ToyTask()
    heads = [Head("encoder", 0, 1), Head("decoder", 1, 0), Head("cross", 0, 3), Head("cross", 1, 2)]
    dims = dict.fromkeys(KINDS, 4)
    small = build_model("transformer_normalign", task, alive_heads=" ".join(map(str, heads)))
    small.load_state_dict(keep_heads(one.forcing.model.state_dict(), heads, dims))
    source, read, _ = TeacherForcing(small, task).tensors(pairs[:1])
    with torch.no_grad():
        logits, _ = small(source, torch.tensor([source.shape[1]]), read)
    return logits[0].tolist()


def gate_results() -> dict:
    """Gates from wide open to closed: their values, what they cost, what the loss makes of them."""
    task = ToyTask()
    model = build_model("transformer_normalign", task, gate_heads="all", gate_lr_scale=1.0)
    total = 0
    for projection in gates(model).values():
        heads = len(projection.log_alpha)
        places = torch.arange(total, total + heads)
        projection.scaled_log_alpha.data = 4.0 - 0.35 * places
        total += heads
    criterion = L0Criterion(
        task,
        L0CriterionConfig(
            sentence_avg=False, label_smoothing=0.1, l0_lambda=0.2, l0_lambda_cross=0.1
        ),
    )
    penalty, logged = criterion.penalty(model)
    penalty.backward()
    uniform = torch.linspace(0.02, 0.98, 4)
    results: dict = {"penalty": penalty.item(), "logged": logged, "heads": {}}
    for name, projection in gates(model).items():
        results["heads"][f"{name[0]}.{name[1] + 1}"] = {
            "value": projection.gate_values().tolist(),
            "paper": evaluation_gates(projection.log_alpha, "paper").tolist(),
            "open": projection.open_probabilities().tolist(),
            "sampled": sample_gates(projection.log_alpha, uniform).tolist(),
            "gradient": projection.scaled_log_alpha.grad.tolist(),
        }
    return results


def compare(stored, now, place: str = "") -> None:
    """Numbers to 1e-4, all else exactly."""
    assert type(stored) is type(now), place
    if isinstance(stored, dict):
        assert list(stored) == list(now), place
        for name in stored:
            compare(stored[name], now[name], f"{place}/{name}")
    elif isinstance(stored, list):
        assert len(stored) == len(now), place
        for number, (before, after) in enumerate(zip(stored, now, strict=True)):
            compare(before, after, f"{place}[{number}]")
    elif isinstance(stored, float):
        assert now == pytest.approx(stored, rel=1e-4, abs=1e-5), place
    else:
        assert stored == now, place


@pytest.mark.filterwarnings("ignore:only .* pairs")
def test_nothing_has_moved():
    compare(json.loads(STORED.read_text()), measured())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    STORED.write_text(json.dumps(measured(), indent=1) + "\n")
