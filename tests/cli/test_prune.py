"""From gates to a smaller checkpoint, through the installed commands."""

import re

import pytest
import torch

import fairseq_normalign.plugin  # noqa: F401  (lets torch.load read checkpoints)
from fairseq_normalign.cli.main import main
from fairseq_normalign.host.compat import without_leftovers
from fairseq_normalign.plugin.gating import Steering
from fairseq_normalign.results.result import read_result
from tests.conftest import PACKAGE, TRAIN, rows_of, run

pytestmark = pytest.mark.slow

GATES = (
    *("--criterion", "label_smoothed_cross_entropy_l0", "--gate-heads", "all"),
    *("--gate-lr-scale", 400, "--target-heads", 20, "--l0-lambda", 0.5),
    *("--log-format", "simple", "--log-interval", 1),
)


def train(corpus, folder, *options):
    return run(*TRAIN, corpus / "data-bin", "--user-dir", PACKAGE, "--save-dir", folder, *options)


def prune(*options, **more):
    return run("normalign", "prune", *options, **more)


def generate(corpus, path):
    options = ["--path", path, "--user-dir", PACKAGE, "--beam", 3, "--cpu", "--max-len-b", 10]
    lines = run("fairseq-generate", corpus / "data-bin", *options).stdout.splitlines()
    return sorted(line for line in lines if line.startswith("H-"))


@pytest.fixture(scope="module")
def gated(corpus, checkpoint, tmp_path_factory):
    """Fine-tuned from a plain checkpoint, then resumed.

    Its gates are set to what longer training might find.
    """
    folder = tmp_path_factory.mktemp("gated")
    train(corpus, folder, *GATES, "--finetune-from-model", checkpoint, "--max-update", 3)
    before = torch.load(folder / "checkpoint_last.pt")["model"]["steering._extra_state"].item()
    assert before == pytest.approx(Steering.RATE**3)
    log = train(
        corpus, folder, *GATES, "--finetune-from-model", checkpoint, "--max-update", 5
    ).stdout
    first_after_resuming = re.search(r"lambda_cross=([\d.]+)", log)
    price = float(first_after_resuming.group(1))
    assert price == pytest.approx(0.5 * before * Steering.RATE, abs=1e-3)
    for name in ("open_encoder", "open_decoder", "open_cross", "closed_heads", "l0_penalty"):
        assert f"{name}=" in log
    path = folder / "checkpoint_last.pt"
    state = torch.load(path)
    torch.manual_seed(1)
    for key, value in state["model"].items():
        if key.endswith("log_alpha"):
            value.normal_(std=3)
    state["model"]["decoder.layers.1.encoder_attn.out_proj.log_alpha"].fill_(-3)
    torch.save(state, path)
    return path


@pytest.fixture(scope="module")
def small(gated, tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "small.pt"
    path.with_suffix(".txt").write_text(prune("--path", gated, "--out", path).stdout)
    return path


def test_pruned_translates_as_gated(corpus, gated, small):
    report = small.with_suffix(".txt").read_text()
    left = int(re.search(r"(\d+) of 36 heads left", report).group(1))
    assert 0 < left < 36
    sizes = re.search(r"([\d.]+) MB of parameters; before, ([\d.]+) MB", report)
    after, before = map(float, sizes.groups())
    assert after < before
    state = torch.load(small)
    assert state["cfg"]["criterion"]["_name"] == "label_smoothed_cross_entropy"
    valid = [
        *("--path", small, "--user-dir", PACKAGE, "--task", "translation", "--cpu"),
        *("--valid-subset", "valid", "--max-tokens", 2000),
    ]
    assert "nll_loss" in str(run("fairseq-validate", corpus / "data-bin", *valid))
    assert not any("log_alpha" in key or "steering" in key for key in state["model"])
    assert len(state["cfg"]["model"].alive_heads.split()) == left
    assert rounded_scores(generate(corpus, small)) == rounded_scores(generate(corpus, gated))


def rounded_scores(lines):
    """Hypotheses as (number, words, score)."""
    hypotheses = []
    for line in lines:
        number, score, *words = line.split()
        hypotheses.append((number, *words, round(float(score), 4)))
    return hypotheses


def shapes(state: dict) -> dict:
    """The shapes of a checkpoint's parameters, by name."""
    return {name: values.shape for name, values in without_leftovers(state["model"]).items()}


def test_pruned_is_tuned_further_and_aligned(corpus, small, tmp_path):
    """fairseq-train builds the heads of the checkpoint it starts from, and resumes with them."""
    train(corpus, tmp_path, "--finetune-from-model", small, "--max-update", 2)
    train(corpus, tmp_path, "--finetune-from-model", small, "--max-update", 3)
    # A name of its own is not looked for in --save-dir.
    restored = [
        *("--restore-file", small.name, "--reset-optimizer"),
        *("--save-dir", tmp_path / "restored"),
    ]
    options = [corpus / "data-bin", "--user-dir", PACKAGE, *restored, "--max-update", 1]
    run(*TRAIN, *options, cwd=small.parent)
    tuned = torch.load(tmp_path / "checkpoint_last.pt")
    assert tuned["optimizer_history"][-1]["num_updates"] == 3
    original = torch.load(small)
    assert tuned["cfg"]["model"].alive_heads == original["cfg"]["model"].alive_heads
    assert shapes(tuned) == shapes(original)
    options = ["--path", tmp_path / "checkpoint_last.pt", "--cpu", "--remove-bpe", "sentencepiece"]
    assert len(run("normalign", "align", corpus / "data-bin", *options).stdout.splitlines()) == 40
    options += ["--gold", corpus / "test.talp"]
    assert "layer" in run("normalign", "methods", corpus / "data-bin", *options).stdout
    # The control experiment: the same heads, from scratch.
    scratch = tmp_path / "scratch"
    train(corpus, scratch, "--alive-heads", small, "--max-update", 1)
    control = torch.load(scratch / "checkpoint_last.pt")
    assert control["cfg"]["model"].alive_heads == tuned["cfg"]["model"].alive_heads


def test_ranked_and_named_heads(corpus, checkpoint, gated, tmp_path):
    out = tmp_path / "small.pt"
    of_gated, of_plain = ["--path", gated, "--out", out], ["--path", checkpoint, "--out", out]
    assert "5 of 36 heads left" in prune(*of_gated, "--keep-top", 5, "--by", "gate").stdout
    assert "heads kept have closed gates" in prune(*of_gated, "--keep", "all").stderr
    none_of = [*of_plain, "--keep-top", 0, "--by", "random", "--kinds"]
    lost = prune(*none_of, "cross").stderr
    assert "no head of source–target attention is left: the decoder no longer sees the sour" in lost
    random = []
    for seed in (1, 1, 2):
        ranked = ["--keep-top", 9, "--by", "random", "--seed", seed]
        random.append(prune(*of_plain, *ranked).stdout)
    assert random[0] == random[1] != random[2]
    text = prune(*of_plain, "--drop", "cross.1.1", "cross.1.2,cross.1.3 cross.1.4").stdout
    assert re.search(r"cross +– +1 2 3 4 +1 2 3 4", text)
    assert "32 of 36 heads left: encoder 12, decoder 12, cross 8" in text
    assert generate(corpus, out)
    again = prune("--path", out, "--keep", "cross.2.3", "--out", tmp_path / "tiny.pt").stdout
    assert "1 of 32 heads left: encoder 0, decoder 0, cross 1" in again
    assert generate(corpus, tmp_path / "tiny.pt")


@pytest.fixture(scope="module")
def measured(corpus, checkpoint):
    """The corpus and model that heads are ranked on."""
    options = ["--path", checkpoint, "--gen-subset", "valid", "--remove-bpe", "sentencepiece"]
    return [str(word) for word in (corpus / "data-bin", *options, "--cpu")]


@pytest.fixture(scope="module")
def scores(measured, tmp_path_factory) -> dict:
    """What ``normalign heads`` says of the source–target heads, by head and score."""
    path = tmp_path_factory.mktemp("heads") / "heads.json"
    assert main(["heads", *measured, "--relevance", "voita", "-o", str(path)]) == 0
    rows = rows_of(read_result(path).tables()["heads"])
    return {row["head"]: row for row in rows if row["head"].startswith("cross.")}


@pytest.mark.parametrize("by", ["norm", "confidence", "importance", "relevance"])
def test_scores_on_a_corpus(measured, scores, tmp_path, by, capsys):
    """The heads that stay are those that ``normalign heads`` gives the highest scores."""
    ranked = ["--keep-top", "4", "--by", by, "--kinds", "cross"]
    assert main(["prune", *measured, *ranked, "--out", str(tmp_path / "small.pt")]) == 0
    assert "28 of 36 heads left: encoder 12, decoder 12, cross 4" in capsys.readouterr().out
    alive = torch.load(tmp_path / "small.pt")["cfg"]["model"].alive_heads.split()
    lowest_first = sorted(scores, key=lambda head: scores[head][by])
    assert len({scores[head][by] for head in scores}) == 12  # no ties: the ranking says something
    assert {head for head in alive if head.startswith("cross.")} == set(lowest_first[-4:])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "has no gates"),
        (["--keep-top", 3, "--by", "gate"], "--by gate: .* has no gates"),
        (["--keep-top", 99, "--by", "random"], "--keep-top 99: there are 36 heads to choose from"),
        (["--keep-top", 3, "--by", "norm"], "--by norm needs DATA: it is measured on a corpus"),
        (["--keep", "cross.9.1"], r"head cross\.9\.1: the model has no such head"),
    ],
)
def test_bad_input(checkpoint, tmp_path, options, message, capsys):
    words = ["prune", "--path", checkpoint, "--out", tmp_path / "x.pt", *options]
    assert main([str(word) for word in words]) == 2
    assert re.fullmatch(f"normalign prune: .*{message}.*\n", capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []
