"""The recipe that trains three models of one text, and what is then seen of them."""

import os
import subprocess

import pytest

from tests.conftest import ROOT

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
    shown = (tmp_path / "evolution.txt").read_text(encoding="utf-8")
    for name, part in {
        "translation": "encoder",
        "language": "decoder",
        "masked": "encoder",
    }.items():
        assert f"{name}.pt, {part}\n" in shown
    assert "language.pt – masked.pt" in shown
    assert (tmp_path / "evolution.png").read_bytes().startswith(b"\x89PNG")
