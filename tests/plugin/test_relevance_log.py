"""Relevance of gated heads in training: the right numbers, the right lines, nothing disturbed."""

import numpy as np
import pytest
import torch
from fairseq.data import LanguagePairDataset
from fairseq.logging import metrics

from fairseq_normalign.attention.pair_relevance import relevances
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.relevance_log import read_log
from fairseq_normalign.host.pairs import PairReader, text_pairs
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.names import Head
from fairseq_normalign.plugin.criterion import L0Criterion, L0CriterionConfig
from fairseq_normalign.plugin.gating import gates
from tests.conftest import ToyTask, build_model
from tests.stored import write_binarised

SOURCE, TARGET = ["w1 w2 w3 w4", "w5 w6", "w0"], ["w7 w8 w9", "w10", "w2 w3"]


@pytest.fixture(autouse=True)
def no_meters():
    """fairseq's meters are of the process: other trainings may have left some."""
    metrics.reset()


@pytest.fixture
def task(tmp_path):
    """A task with a validation set of three sentences."""
    task = ToyTask()
    task.args.data = str(tmp_path)
    for language, lines in (("a", SOURCE), ("b", TARGET)):
        write_binarised(tmp_path / f"valid.a-b.{language}", lines, task.source_dictionary)
    return task


@pytest.fixture
def sample(task):
    """A batch to train on."""
    own = task.source_dictionary
    sides = []
    for lines in (SOURCE, TARGET):
        tokens = [own.encode_line(line, add_if_not_exist=False).long() for line in lines]
        sides += [tokens, list(map(len, tokens)), own]
    dataset = LanguagePairDataset(*sides)
    return dataset.collater([dataset[index] for index in range(3)])


@pytest.fixture
def model(task):
    model = build_model("transformer_normalign", task, gate_heads="encoder,cross", dropout=0.3)
    torch.manual_seed(3)
    for projection in gates(model).values():
        projection.scaled_log_alpha.data = torch.randn(4) * 0.03
    return model


def criterion(task, folder, sentences=2):
    own = {"log_relevance": sentences, "save_dir": str(folder), "valid_subset": "valid,test"}
    return L0Criterion(task, L0CriterionConfig(sentence_avg=False, label_smoothing=0.1, **own))


def train(criterion, model, sample, update):
    model.train()
    model.set_num_updates(update)
    return criterion(model, sample)[0]


def validate(criterion, model, sample):
    model.eval()
    with torch.no_grad():
        return criterion(model, sample)[0]


def test_lines_have_gates_and_relevance_of_all_gated_heads(task, sample, model, tmp_path):
    own = criterion(task, tmp_path)
    train(own, model, sample, 0)
    gates(model)["cross", 1].scaled_log_alpha.data[2] = -1.0
    validate(own, model, sample)
    start, after = read_log(tmp_path / "relevance.jsonl")
    assert (start.updates, after.updates) == (0, 1)
    assert after.sentences == 2
    assert after.rules.startswith("voita")
    assert len(after.heads) == 16
    closed = after.heads[Head("cross", 1, 2)]
    assert (closed.gate, closed.relevance) == (0, 0)
    shares = []
    for pair in text_pairs(zip(SOURCE[:2], TARGET[:2], strict=True), PairReader(task)):
        (of_pair,) = relevances(TeacherForcing(model, task), [pair], pooled=True)
        shares.append(of_pair.heads["encoder", 0][0])
    for head in range(4):
        state = after.heads[Head("encoder", 0, head)]
        projection = gates(model)["encoder", 0]
        assert state.relevance == pytest.approx(np.mean(shares, 0)[head], rel=1e-3)
        assert state.gate == pytest.approx(projection.gate_values()[head].item(), rel=1e-4)
        assert state.open == pytest.approx(projection.open_probabilities()[head].item(), rel=1e-4)


def test_nothing_is_disturbed(task, sample, model, tmp_path):
    """Loss, gradients, modes and random numbers are those of a training without the log."""
    results = []
    for own in (criterion(task, tmp_path), criterion(task, tmp_path, sentences=0)):
        torch.manual_seed(5)
        model.zero_grad()
        loss = train(own, model, sample, 0)
        assert all(module.training for module in model.modules())
        loss.backward()
        gradients = [parameter.grad.clone() for parameter in model.parameters()]
        valid_loss = validate(own, model, sample)
        assert not any(module.training for module in model.modules())
        results.append((loss.detach(), valid_loss, torch.get_rng_state(), gradients))
    assert len(read_log(tmp_path / "relevance.jsonl")) == 2
    logged, quiet = results
    for one, other in zip(logged[:3], quiet[:3], strict=True):
        assert torch.equal(one, other)
    assert all(map(torch.equal, logged[3], quiet[3]))


def test_a_training_that_is_resumed_goes_on_with_its_file(task, sample, model, tmp_path, caplog):
    own = criterion(task, tmp_path)
    for update in (0, 1, 2):
        train(own, model, sample, update)
        validate(own, model, sample)
    resumed = criterion(task, tmp_path)  # at what was saved after two updates
    train(resumed, model, sample, 2)
    assert "replacing 1 lines of a training that went on after 2 updates" in caplog.text
    train(resumed, model, sample, 3)
    validate(resumed, model, sample)
    assert [entry.updates for entry in read_log(tmp_path / "relevance.jsonl")] == [0, 1, 2, 4]
    train(criterion(task, tmp_path), model, sample, 0)
    assert [entry.updates for entry in read_log(tmp_path / "relevance.jsonl")] == [0]


def test_a_training_that_diverges_goes_on(task, sample, model, tmp_path, caplog):
    own = criterion(task, tmp_path)
    train(own, model, sample, 0)
    model.encoder.layers[0].fc1.bias.data[0] = torch.nan
    validate(own, model, sample)
    validate(own, model, sample)  # the next batch
    assert len(read_log(tmp_path / "relevance.jsonl")) == 1
    told = "no relevance of gated heads at 1 updates: sentence 1: "
    assert caplog.text.count(told) == 1


def test_bad_input(task, sample, model, tmp_path):
    train(criterion(task, tmp_path), model, sample, 0)
    other = build_model("transformer_normalign", task, gate_heads="encoder")
    with pytest.raises(InputError, match=r"relevance\.jsonl: other heads are gated now"):
        train(criterion(task, tmp_path), other, sample, 1)
    task.args.data = "nowhere"
    with pytest.raises(InputError, match="nowhere: no binarised subset 'valid'"):
        train(criterion(task, tmp_path), model, sample, 0)
    plain = build_model("transformer_normalign", task)
    with pytest.raises(InputError, match="the model has no gates: add --gate-heads"):
        train(criterion(task, tmp_path), plain, sample, 0)
