import argparse
import math
import warnings

import pytest
import torch

from fairseq_normalign.alignment.aligner import NormAligner
from fairseq_normalign.alignment.combined import CombinedAligner
from fairseq_normalign.alignment.evidence import parse_evidence
from fairseq_normalign.attention.recorder import recorded
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.attention.soft_alignments import soft_alignments
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.attention_pass import running_heads
from fairseq_normalign.heads.profiling import head_ranks, profile
from fairseq_normalign.heads.pruning import (
    Prunable,
    evaluation_gates,
    open_probabilities,
    sample_gates,
)
from fairseq_normalign.host.checkpoint import load_single
from fairseq_normalign.host.options import ReadyModel
from fairseq_normalign.host.pairs import PairReader, text_pairs
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.names import Head, parse_head
from fairseq_normalign.text.treebank import Tree
from tests.conftest import build_model, run
from tests.stored import OPTIONS, store

GATED = {"arch": "transformer_normalign", "gate_heads": "all"}
SIZES = {name: value for name, value in OPTIONS.items() if name.startswith(("max", "share"))}


def gated_parameters() -> dict:
    parameters = build_model(**GATED, **SIZES).state_dict()
    parameters["encoder.layers.1.self_attn.out_proj.log_alpha"][2] = -9.0
    return parameters


@pytest.mark.parametrize("form", ["args", "cfg"])
def test_closed_heads_go(folder, form):
    parameters = gated_parameters()
    path = store(folder / "gated.pt", parameters=parameters, **GATED, gate_lr_scale=100.0)
    if form == "cfg":
        stored = torch.load(path)
        model = argparse.Namespace(**vars(stored["args"]), _name="transformer_normalign")
        task = {**OPTIONS, "_name": "translation"}
        torch.save({**stored, "args": None, "cfg": {"model": model, "task": task}}, path)
    prunable = Prunable(path)
    assert prunable.closed == {Head("encoder", 1, 2)}
    prunable.write(prunable.open_heads(), str(folder / "small.pt"))
    model, _ = load_single(str(folder / "small.pt"), str(folder))
    heads = [layer.self_attn.num_heads for layer in model.encoder.layers]
    assert heads == [4, 3]


@pytest.mark.parametrize(
    ("target", "told"),
    [
        (18, "--target-heads 18, but 23 gates are open; --keep-top 18 --by gate keeps 18"),
        (23, None),
    ],
)
def test_a_target_that_was_missed_is_told(folder, target, told):
    path = store(folder / "gated.pt", parameters=gated_parameters(), **GATED)
    stored = torch.load(path)
    criterion = {"_name": "label_smoothed_cross_entropy_l0", "target_heads": target}
    cfg = {"model": stored["args"], "criterion": criterion}
    torch.save({**stored, "args": None, "cfg": cfg}, path)
    with warnings.catch_warnings(record=True) as caught:
        Prunable(path).open_heads()
    messages = [str(warning.message) for warning in caught]
    assert messages == ([] if told is None else [f"{path}: trained with {told}"])


def test_gates_that_never_closed(folder):
    parameters = gated_parameters()
    parameters["encoder.layers.1.self_attn.out_proj.log_alpha"][2] = 2.0
    path = store(folder / "gated.pt", parameters=parameters, **GATED)
    message = r"all 24 gates are open \(lowest log α \d\.\d\d\).*--keep-top N --by gate"
    with pytest.raises(InputError, match=message):
        Prunable(path).open_heads()
    words = ["normalign", "convert", path, "--arch", "transformer", "-o", folder / "plain.pt"]
    assert "has gates" in run(*words, check=False).stderr


def test_an_output_that_is_the_input(folder):
    path = store(folder / "full.pt")
    (folder / "link.pt").hardlink_to(path)
    before = (folder / "full.pt").read_bytes()
    for output in ("full.pt", "link.pt"):
        with pytest.raises(InputError, match=r"full\.pt"):
            Prunable(path).write([Head("encoder", 0, 0)], str(folder / output))
    assert (folder / "full.pt").read_bytes() == before


# The heads of the encoder's first layer read, and so do, what they did when all heads were there.
FIRST = ["encoder.1.2", "encoder.1.4", "decoder.1.1", "cross.1.3", "cross.2.2", "cross.2.4"]
SECOND = ["encoder.1.4", "cross.1.3", "cross.2.4"]


def named(names) -> list[Head]:
    return [parse_head(name) for name in names]


@pytest.fixture
def small(folder) -> str:
    """A checkpoint with the heads of FIRST."""
    Prunable(store(folder / "full.pt")).write(named(FIRST), str(folder / "small.pt"))
    return str(folder / "small.pt")


def rows(path, head: Head, place: int):
    """W_Q of one of the heads of the encoder's first layer."""
    weight = torch.load(path)["model"][f"encoder.layers.{head.layer}.self_attn.q_proj.weight"]
    return weight[4 * place : 4 * (place + 1)]


def test_heads_keep_their_first_names_when_more_are_removed(folder, small):
    prunable = Prunable(small)
    assert prunable.heads == named(FIRST)
    prunable.write(named(SECOND), str(folder / "smaller.pt"))
    again = Prunable(str(folder / "smaller.pt"))
    assert again.heads == named(SECOND)
    assert again.options.alive_heads == " ".join(SECOND)
    fourth = Head("encoder", 0, 3)
    original = rows(folder / "full.pt", fourth, place=3)
    assert torch.equal(rows(small, fourth, place=1), original)
    assert torch.equal(rows(folder / "smaller.pt", fourth, place=0), original)


def test_the_command_takes_first_names(folder, small):
    out = folder / "out.pt"
    options = ["normalign", "prune", "--path", small, "--out", out]
    kept = run(*options, "--keep", "encoder.1.4,cross.2.2").stdout
    assert "encoder    4" in kept
    assert Prunable(str(out)).heads == named(["encoder.1.4", "cross.2.2"])
    run(*options, "--drop", "encoder.1.4 decoder.1.1")
    assert Prunable(str(out)).heads == named([FIRST[0], *FIRST[3:]])
    run(*options, "--keep-top", 2, "--by", "random")
    assert set(Prunable(str(out)).heads) < set(named(FIRST))
    gone = run(*options, "--keep", "encoder.1.1", check=False)
    assert gone.stderr == (
        "normalign prune: head encoder.1.1: the model has no such head; its layer has encoder.1.2, "
        "encoder.1.4\n"
    )


def test_gates_of_a_pruned_model_have_the_first_names(folder):
    """As of a pruned model that is trained on with gates, and pruned again."""
    options = {"alive_heads": " ".join(FIRST), "gate_heads": "encoder,cross"}
    parameters = build_model("transformer_normalign", **options, **SIZES).state_dict()
    parameters["decoder.layers.1.encoder_attn.out_proj.log_alpha"][1] = -9.0
    parameters["encoder.layers.0.self_attn.out_proj.log_alpha"][0] = -9.0
    arch = {"arch": "transformer_normalign", "gate_lr_scale": 100.0}
    path = store(folder / "gated.pt", parameters=parameters, **arch, **options)
    prunable = Prunable(path)
    assert prunable.closed == set(named(["encoder.1.2", "cross.2.4"]))
    assert list(prunable.log_alphas) == named(FIRST[:2] + FIRST[3:])
    prunable.write(prunable.open_heads(), str(folder / "out.pt"))
    assert Prunable(str(folder / "out.pt")).heads == named(
        ["encoder.1.4", "decoder.1.1", "cross.1.3", "cross.2.2"]
    )


def loaded(path, folder) -> ReadyModel:
    model, task = load_single(str(path), str(folder))
    return ReadyModel(TeacherForcing(model, task), PairReader(task))


@pytest.fixture
def ready(folder, small):
    """The full and the small model, and pairs for both."""
    models = [loaded(path, folder) for path in (folder / "full.pt", small)]
    lines = [("w1 w2 w3 w4", "w5 w6 w7"), ("w2 w9", "w3 w3 w8")]
    return models, list(text_pairs(lines, models[0].reader))


def test_scores_of_a_pruned_model_have_the_first_names(ready):
    """The encoder's first layer reads what it read before: its heads have the scores they had."""
    (full, small), pairs = ready
    scores = ["confidence", "norm", "positions", "importance", "ablation", "relevance"]
    before = profile(full, pairs, scores, relevance_mode="pooled")
    after = profile(small, pairs, scores, relevance_mode="pooled")
    assert after.heads == running_heads(small.forcing) == named(FIRST)
    assert all(set(of_heads) == set(after.heads) for of_heads in after.scores.values())
    for name in ("confidence", "norm"):
        for head in named(["encoder.1.2", "encoder.1.4"]):
            assert after.scores[name][head] == pytest.approx(before.scores[name][head], rel=1e-4)
    for head in named(["encoder.1.2", "encoder.1.4"]):
        own, first = (of.by_score["positions"] for of in (after, before))
        assert own.scores[head] == first.scores[head]
        assert own.labels["position"][head] == first.labels["position"][head]
    assert set(head_ranks(small, pairs, "norm")) == set(named(FIRST))


def test_alignments_by_a_head_of_a_pruned_model(ready):
    """Head 4 of layer 2 is the second of those that are left; its number is 4 everywhere."""
    (_, small), pairs = ready
    aligner = NormAligner(*small, method="weights", layer=2, head=4, step="input")
    assert aligner.signature()["head"] == 4
    recording = recorded(small.forcing, pairs, ["cross"], layers=[1], values=False)
    weights = recording["cross", 1].weights  # (B, H, T, S)
    (soft,), _ = soft_alignments(small.forcing, pairs, [aligner.evidence])
    words = len(pairs[0].target.text)
    expected = weights[0, 1, 1 : words + 1, : len(pairs[0].source.text)]
    torch.testing.assert_close(torch.tensor(soft.words), expected)
    for layer, head, there in ((2, 3, "heads 2, 4"), (1, 1, "head 3")):
        with pytest.raises(InputError, match=f"head {head}: layer {layer} has {there}"):
            NormAligner(*small, layer=layer, head=head, step="input")


def test_evidences_of_a_pruned_model(ready):
    (_, small), _ = ready
    aligner = NormAligner(*small)
    every = CombinedAligner(aligner).every_evidence()
    heads = {(evidence.layer, evidence.head) for evidence in every}
    assert heads == {(0, None), (0, 2), (1, None), (1, 1), (1, 3)}
    named_ones = [parse_evidence("norms.2.4.input"), parse_evidence("norms.1.3.output")]
    assert CombinedAligner(aligner, combine="mean", evidences=named_ones).evidences == named_ones
    with pytest.raises(InputError, match="head 1: layer 2 has heads 2, 4"):
        CombinedAligner(aligner, combine="mean", evidences=[parse_evidence("norms.2.1.input")])
    assert named_ones[0] == Evidence("norms", 1, "input", 3)


def test_an_encoder_without_heads_has_no_syntactic_roles(folder):
    left = named(["decoder.1.1", "cross.1.3"])
    Prunable(store(folder / "full.pt")).write(left, str(folder / "headless.pt"))
    ready = loaded(folder / "headless.pt", folder)
    pairs = list(text_pairs([("w1 w2", "w5 w6 w7")], ready.reader))
    tree = Tree(["w1", "w2"], [1, -1], ["nsubj", "root"], "made up")
    with pytest.warns(UserWarning, match="no syntactic roles: the encoder has no heads left"):
        measured = profile(ready, pairs, ["norm", "positions", "UAS"], trees=[tree])
    assert measured.heads == left
    assert "UAS" not in measured.scores


@pytest.mark.parametrize(
    ("log_alpha", "probability", "gate"),
    [(-5, 0.0146, 0), (-1, 0.4480, 0.2227), (0, 0.6881, 0.5), (1, 0.8571, 0.7773), (3, 0.9779, 1)],
)
def test_published_values(log_alpha, probability, gate):
    """Of the authors' code (lib/layers/concrete_gate.py)."""
    log_alpha = torch.tensor([float(log_alpha)])
    assert open_probabilities(log_alpha).item() == pytest.approx(probability, abs=5e-5)
    assert evaluation_gates(log_alpha).item() == pytest.approx(gate, abs=5e-5)


def test_samples_are_open_as_often_as_the_formula_says():
    torch.manual_seed(0)
    log_alpha = torch.tensor([-3.0, -1.0, 0.0, 1.0, 3.0])
    gates = sample_gates(log_alpha, torch.rand(100_000, 5))
    assert torch.allclose((gates > 0).float().mean(0), open_probabilities(log_alpha), atol=0.006)
    # P(g = 1) mirrors P(g = 0)
    assert torch.allclose(
        (gates == 1).float().mean(0), 1 - open_probabilities(-log_alpha), atol=0.006
    )
    assert ((gates >= 0) & (gates <= 1)).all()


def slow_sample(log_alpha: float, uniform: float) -> float:
    share = 1 / (1 + math.exp(-(math.log(uniform) - math.log(1 - uniform) + log_alpha) / 0.33))
    return min(1.0, max(0.0, share * 1.2 - 0.1))


def test_sample_against_its_formula():
    for log_alpha in (-2.0, 0.3, 2.5):
        for uniform in (0.01, 0.4, 0.5, 0.77, 0.99):
            gate = sample_gates(torch.tensor([log_alpha]), torch.tensor([uniform]))
            assert gate.item() == pytest.approx(slow_sample(log_alpha, uniform), abs=1e-5)


def test_samples_at_the_ends_and_their_gradient():
    assert sample_gates(torch.zeros(2), torch.tensor([0.0, 1.0])).tolist() == [0, 1]
    log_alpha = torch.zeros(1, requires_grad=True)
    sample_gates(log_alpha, torch.tensor([0.5])).sum().backward()
    assert log_alpha.grad.item() == pytest.approx(0.25 / 0.33 * 1.2, rel=1e-4)


def test_paper_rule_closes_what_is_more_often_0_than_1():
    log_alpha = torch.linspace(-4, 4, 80)
    closed = evaluation_gates(log_alpha, "paper") == 0
    zero, one = 1 - open_probabilities(log_alpha), 1 - open_probabilities(-log_alpha)
    assert (closed == (zero > one)).all()
    assert torch.equal(
        evaluation_gates(log_alpha, "paper")[~closed], evaluation_gates(log_alpha)[~closed]
    )
