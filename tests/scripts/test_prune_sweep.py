"""The sweep over numbers of heads: what it prunes, refuses and passes on, and two whole sweeps."""

from __future__ import annotations

import re
from types import SimpleNamespace

import prune_sweep
import pytest
import torch

import fairseq_normalign.plugin  # noqa: F401  (lets torch.load read checkpoints)
from tests.cli.test_evaluate import models

FAST = "--lr 2e-3 --warmup-updates 1 --max-update 14 --gate-lr-scale 400 --cpu"
EVALUATE = ("--evaluate", "--remove-bpe sentencepiece --limit 5 --cpu")


def sweep(*words) -> int:
    return prune_sweep.main([str(word) for word in words])


@pytest.fixture
def pruned(monkeypatch) -> list[tuple]:
    """The commands that would run."""
    commands: list[tuple] = []
    monkeypatch.setattr(prune_sweep, "normalign", lambda *words: commands.append(words))
    return commands


@pytest.mark.parametrize(("closed", "options"), [({"encoder.1.1"}, ()), (set(), ("--keep", "all"))])
def test_a_model_whose_gates_are_all_open_is_kept_as_it_is(pruned, monkeypatch, closed, options):
    monkeypatch.setattr(prune_sweep, "Prunable", lambda path: SimpleNamespace(closed=closed))
    prune_sweep.prune("a.pt", "b.pt")
    assert pruned == [("prune", "--path", "a.pt", *options, "--out", "b.pt")]


@pytest.mark.slow
def test_sweep_of_the_encoder(corpus, checkpoint, tmp_path, capsys):
    """Gates close encoder heads, and what only the decoder has stays as it was."""
    command = [corpus / "data-bin", "--path", checkpoint, "--out", tmp_path, "--encoder-only"]
    options = ["--l0-lambda", 2.0, "--l0-warmup-updates", 0, "--train", FAST]
    options += ["--scratch", "--scratch-train", "--max-update 2 --cpu"]
    assert sweep(*command, *options, *EVALUATE) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^checkpoint_last.pt +36 +12 +12 +12", shown, re.MULTILINE)
    assert re.search(r"^control.pt +36", shown, re.MULTILINE)
    assert "scratch" in shown
    assert (tmp_path / "sweep.png").stat().st_size > 10_000
    full, _, pruned = models(tmp_path / "sweep.json")[:3]
    assert pruned["e"] < full["e"]
    assert pruned["d"] == full["d"]
    before = torch.load(checkpoint)["model"]
    for name in ("control.pt", "pruned-2.0.pt"):
        after = torch.load(tmp_path / name)["model"]
        for side, is_kept in (("decoder", True), ("encoder", False)):
            key = f"{side}.layers.0.fc1.weight"
            assert torch.equal(after[key], before[key]) == is_kept
    start = torch.load(tmp_path / "scratch-2.0" / "checkpoint_last.pt")["cfg"]["checkpoint"]
    assert start["finetune_from_model"] is None
    assert sweep(*command, *options, "--train", FAST + " --seed 2") == 2
    assert "was trained with other options" in capsys.readouterr().err
