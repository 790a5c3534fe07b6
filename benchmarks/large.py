"""Whole commands: memory on short and long corpora, and the time of two workers."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import torch

from benchmarks.models import SMALL, TINY, Shape, build_model, build_task, options_of, texts
from benchmarks.timing import Row
from fairseq_normalign.files import read_lines

TEXT = "--source-file text.a --target-file text.b --remove-bpe subword_nmt"
MODEL = (".", "--path", "model.pt", *TEXT.split())
COMMANDS = {
    "align": ("align", *MODEL, "--layer", "1", "--step", "input"),
    "aer": ("aer", "gold", "-i", "links"),
    "symmetrize": ("symmetrize", "links", "links", "--rev-order", "source-target"),
}
SLOW = {  # with chunks of some 20 pairs, which workers share
    "lrp-epsilon": ("align", *MODEL, "--method", "lrp-epsilon", "--combine", "none"),
    "ablation": ("heads", *MODEL, "--scores", "ablation", "--ablation", "1000"),
}
STATS = ("stats", *MODEL, "--mixing")

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


def workers(shape: Shape = SMALL, size: int = 500) -> Iterator[Row]:
    """Two workers against one, from command to result, by the clock; refuses other results."""
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(Path(folder), shape, size)
        for name, command in SLOW.items():
            seconds, results = [], set()
            for count in ("1", "2"):
                start = time.perf_counter()
                peak([*command, "--workers", count, "--restart", "-o", "result"], folder)
                seconds.append(time.perf_counter() - start)
                results.add(Path(folder, "result").read_bytes())
            if len(results) > 1:
                raise RuntimeError(f"{name}: one worker and two differ")
            one, two = seconds
            what = f"{name} of {size} pairs by two workers against one, {shape.name}"
            yield Row(what, two, one, "s", one / two, "≥ 1.8")


def end_to_end(size: int = 100_000) -> Iterator[Row]:
    """A real corpus by two models on one core, against eflomal in both directions.

    Needs the data and checkpoints that ``scripts/tables.sh`` names.
    """
    sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
    from statistical_aligners import ALIGNERS, Text, cpu_seconds, install

    data = Path(os.environ["NORMALIGN_DATA"]).absolute()
    checkpoints = Path(
        os.environ.get("NORMALIGN_CHECKPOINTS", data.parent / "checkpoints")
    ).absolute()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model in ("deen", "ende"):
            (folder / model).mkdir()
            (folder / model / "model.pt").symlink_to(checkpoints / f"{model}.pt")
            (folder / model / "spm.model").symlink_to(data / "deen/spm.model")
            for language in ("de", "en"):
                (folder / model / f"dict.{language}.txt").symlink_to(checkpoints / "dict.txt")
        text = [folder / "text.de", folder / "text.en"]
        for side in text:
            with side.open("w") as file:
                file.writelines(islice(read_lines(data / f"deen/train{side.suffix}.gz"), size))
        words = [folder / "deen", *text, "-r", folder / "ende", "-o", folder / "links"]
        normalign = [sys.executable, "-m", "fairseq_normalign.cli.main", "align", *words]
        install(ALIGNERS["eflomal"], folder / "environment")
        both = [folder / "forward", folder / "reverse"]
        eflomal = ALIGNERS["eflomal"].command(folder / "environment", Text(text, 0), both)
        ours, theirs = (cpu_seconds(command, folder / "log") for command in (normalign, eflomal))
        yield Row(f"{size:,} pairs by two models against eflomal", ours, theirs, "s", ours / theirs)


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
