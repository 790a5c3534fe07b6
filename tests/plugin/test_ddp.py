"""Gated training by two workers, each with its own share of the data: one model comes out.

fairseq's command does not start workers on the CPU by itself, but takes part in a training of
several that were started by others. Of its ways to average gradients, ``legacy_ddp`` works there.
"""

from __future__ import annotations

import itertools
import os
import random
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fairseq_normalign.heads.relevance_log import read_log
from fairseq_normalign.plugin.gating import Steering
from tests.conftest import PACKAGE, ROOT, ToyTask
from tests.stored import write_binarised

WORKERS = 2
UPDATES = 8
OPTIONS = {
    "--user-dir": PACKAGE,
    "--arch": "transformer_normalign_tiny",
    "--gate-heads": "all",
    "--criterion": "label_smoothed_cross_entropy_l0",
    "--l0-lambda": 0.1,
    "--optimizer": "adam",
    "--lr": 1e-2,
    "--dropout": 0.1,
    "--max-tokens": 60,
    "--max-update": UPDATES,
    "--seed": 3,
    "--distributed-world-size": WORKERS,
    "--distributed-backend": "gloo",
    "--ddp-backend": "legacy_ddp",
}
FLAGS = ["--cpu", "--no-progress-bar", "--share-all-embeddings", "--distributed-no-spawn"]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Sentences of many lengths, so that workers have different numbers of tokens."""
    folder = tmp_path_factory.mktemp("ddp")
    dictionary = ToyTask().source_dictionary
    maker = random.Random(5)
    for language in "ab":
        dictionary.save(str(folder / f"dict.{language}.txt"))
    for subset, count in (("train", 60), ("valid", 20)):
        for language in "ab":
            lengths = [maker.randint(1, 9) for _ in range(count)]
            lines = [" ".join(f"w{maker.randrange(30)}" for _ in range(size)) for size in lengths]
            write_binarised(folder / f"{subset}.a-b.{language}", lines, dictionary)
    return folder


def free_port() -> int:
    with socket.socket() as endpoint:
        endpoint.bind(("localhost", 0))
        return endpoint.getsockname()[1]


def train(data: Path, folder: Path, **more) -> list[dict]:
    """What each worker had."""
    named = {f"--{name.replace('_', '-')}": value for name, value in more.items()}
    settings = {**OPTIONS, **named, "--save-dir": folder / "saved"}
    settings["--distributed-init-method"] = f"tcp://localhost:{free_port()}"
    words: list = [data, *FLAGS]
    for name, value in settings.items():
        words += [name, value]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    logs = [folder / f"{rank}.log" for rank in range(WORKERS)]
    workers = []
    for rank, log in enumerate(logs):
        command = [sys.executable, "-m", "tests.plugin.ddp_worker", folder / f"{rank}.pt", *words]
        command += ["--distributed-rank", rank]
        with log.open("wb") as file:
            workers.append(
                subprocess.Popen(
                    [str(word) for word in command],
                    env=environment,
                    cwd=folder,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                )
            )
    try:
        statuses = [worker.wait(timeout=600) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert statuses == [0] * WORKERS, "\n".join(log.read_text()[-2000:] for log in logs)
    return [torch.load(folder / f"{rank}.pt") for rank in range(WORKERS)]


@pytest.mark.slow
def test_workers_keep_one_model(data, tmp_path):
    first, second = train(data, tmp_path, target_heads=20, log_relevance=3)
    histories = list(zip(first["history"], second["history"], strict=True))
    assert len(histories) == UPDATES
    # They saw different data, …
    assert any(one["tokens"] != other["tokens"] for one, other in histories)
    for one, other in histories:
        # … and yet have the same gates and the same price of a head after every update.
        assert one["log_alpha"] == other["log_alpha"]
        assert one["factor"] == other["factor"]
    assert first["parameters"].keys() == second["parameters"].keys()
    for name, values in first["parameters"].items():
        assert torch.equal(values, second["parameters"][name]), name
    # The gates have moved, and the factor: one step with each update.
    start, end = (first["history"][place]["log_alpha"] for place in (0, -1))
    assert start != end
    factors = [1.0, *(entry["factor"] for entry in first["history"])]
    steps = [after / before for before, after in itertools.pairwise(factors)]
    rate = Steering.RATE
    assert all(step in (pytest.approx(rate), pytest.approx(1 / rate)) for step in steps)
    # Each worker draws gates of its own: the mean of their gradients is over two draws.
    assert any(one["noise"] != other["noise"] for one, other in histories)
    # What fairseq saves is what the workers have.
    saved = torch.load(tmp_path / "saved/checkpoint_last.pt")["model"]
    for name, values in first["parameters"].items():
        assert torch.equal(values, saved[name]), name
    # One of them has measured relevance, at the start and after epochs.
    updates = [entry.updates for entry in read_log(tmp_path / "saved/relevance.jsonl")]
    assert (updates[0], updates[-1]) == (0, UPDATES)
