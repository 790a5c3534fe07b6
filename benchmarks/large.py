"""Memory of the commands that stream, on short and long corpora."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from benchmarks.models import TINY, Shape, build_model, build_task, options_of, texts
from benchmarks.timing import Row

CORPUS = ("--source-file", "text.a", "--target-file", "text.b", "--remove-bpe", "subword_nmt")
COMMANDS = {
    "align": ("align", ".", "--path", "model.pt", *CORPUS, "--layer", "1", "--step", "input"),
    "aer": ("aer", "gold", "-i", "links"),
    "symmetrize": ("symmetrize", "links", "links", "--rev-order", "source-target"),
}
STATS = ("stats", ".", "--path", "model.pt", *CORPUS, "--mixing")

HISTORY = {  # that fairseq looks for in a checkpoint
    "extra_state": {},
    "optimizer_history": [
        {"criterion_name": "", "optimizer_name": "", "num_updates": 1, "lr_scheduler_state": {}}
    ],
}


def large(shape: Shape = TINY, sizes: Sequence[int] = (1_000, 100_000)) -> Iterator[Row]:
    """Peak memory on a long corpus against that on a short one."""
    peaks: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            write_corpus(Path(folder), shape, size)
            for name, command in COMMANDS.items():
                peaks[name].append(peak(command, folder))
    short, long = sizes
    for name, (of_short, of_long) in peaks.items():
        what = f"peak memory of {name}, {long:,} pairs against {short:,}, {shape.name}"
        yield Row(what, of_long, of_short, "MB", of_long / of_short, "≤ 1.1")


def samples(shape: Shape = TINY, sizes: Sequence[int] = (2_000, 100_000)) -> Iterator[Row]:
    """Peak memory of what draws samples, which grow until they are full."""
    peaks = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            write_corpus(Path(folder), shape, size)
            peaks.append(peak(STATS, folder))
    for size, of_size in zip(sizes[1:], peaks[1:], strict=True):
        what = f"peak memory of stats --mixing, {size:,} pairs against {sizes[0]:,}, {shape.name}"
        yield Row(what, of_size, peaks[0], "MB", of_size / peaks[0], "≤ 1.3")


def write_corpus(folder: Path, shape: Shape, size: int) -> None:
    """A model, its dictionaries, a text, and links of it."""
    task = build_task(shape)
    for language in "ab":
        task.source_dictionary.save(str(folder / f"dict.{language}.txt"))
    model = build_model(shape, task)
    options = Namespace(**options_of(shape), arch="transformer", task="translation")
    options.source_lang, options.target_lang = "a", "b"
    torch.save({"args": options, "model": model.state_dict(), **HISTORY}, folder / "model.pt")
    places = ("text.a", "text.b", "links", "gold")
    files = [(folder / name).open("w") for name in places]
    for source, target in texts(shape, size):
        words = min(source.count("@@ "), target.count("@@ ")) + 1
        links = " ".join(f"{word // 2}-{word // 2}" for word in range(words))
        for file, line in zip(files, (source, target, links, links), strict=True):
            file.write(f"{line}\n")
    for file in files:
        file.close()


def peak(command: Sequence[str], folder: str) -> float:
    """Megabytes that a command took at most."""
    words = [sys.executable, "-m", "benchmarks.peak", folder, *command]
    done = subprocess.run(
        words, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{done.stderr}")
    return float(done.stderr.splitlines()[-1])
