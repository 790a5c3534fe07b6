"""The recipe that trains three models of one text, and what is then seen of them."""

import os
import subprocess

import pytest

from tests.conftest import ROOT, run

pytestmark = pytest.mark.slow


def test_three_models_of_one_text(corpus, tmp_path):
    done = subprocess.run(
        ["bash", ROOT / "scripts/train_three.sh", tmp_path, corpus / "data-bin", "src", "tgt"],
        capture_output=True,
        text=True,
        env={**os.environ, "UPDATES": "2", "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    names = ["translation.pt", "language.pt", "masked.pt"]
    shown = run(
        "normalign",
        "evolution",
        tmp_path / "data",
        *("--path", *(tmp_path / name for name in names)),
        *("--gen-subset", "train", "--limit", 300, "--remove-bpe", "sentencepiece", "--cpu"),
        *("--types", 5, "--occurrences", 30, "--tokens", 1280, "--groups", 1, "--no-influence"),
    )
    for name, part in zip(names, ("encoder", "decoder", "encoder"), strict=True):
        assert f"{name}, {part}\n" in shown.stdout
    assert "language.pt – masked.pt" in shown.stdout
