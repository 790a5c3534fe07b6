"""Peak memory: each variant runs in a process of its own.

``python -m benchmarks.memory VARIANT SHAPE`` runs one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from benchmarks import norms
from benchmarks.models import BASE, TINY, Shape, build_model, build_task, token_batch
from benchmarks.peak import peak_of_this_process
from benchmarks.timing import Row

RUNS = 5  # of the variant: a peak shows only when memory is taken and freed again


def memory(
    shapes: Sequence[Shape] = (BASE, TINY), lengths: Sequence[int] = (30, 60, 120)
) -> Iterator[Row]:
    """Forward passes with and without norms; norms against vectors that are built in full."""
    for shape in shapes:
        plain, cross, both = (peak(variant, shape) for variant in ("plain", "cross", "all"))
        yield Row(
            f"peak memory, norms of cross-attention, {shape.name}",
            cross,
            plain,
            "MB",
            cross / plain,
            "≤ 1.15",
        )
        yield Row(
            f"peak memory, norms of all attentions, {shape.name}", both, plain, "MB", both / plain
        )
    for length in lengths:  # ours grows with S and with T·S, but not with T·S·C
        shape = shapes[0]._replace(batch=4, length=length)
        idle, ours, full = (peak(variant, shape) for variant in ("parts", "norms", "materialised"))
        what = f"memory of norms against vectors, {shape.name}, B = 4, T = S = {length}"
        yield Row(what, ours - idle, full - idle, "MB", (full - idle) / max(1, ours - idle))


def peak(variant: str, shape: Shape) -> float:
    """Megabytes that a process took at most."""
    command = [sys.executable, "-m", "benchmarks.memory", variant, *map(str, shape)]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    return float(done.stdout.split()[-1])


def main(variant: str, name: str, *sizes: str) -> None:
    torch.set_num_threads(1)
    shape = Shape(name, *map(int, sizes))
    if variant in norms.VARIANTS:
        model, sample = build_model(shape, build_task(shape)), token_batch(shape)
        for _ in range(RUNS):
            norms.extract(model, sample, norms.VARIANTS[variant])
    else:
        parts = norms.attention_parts(shape)
        way = {"parts": lambda *_: None, "norms": norms.norms, "materialised": norms.materialised}[
            variant
        ]
        for _ in range(RUNS):
            way(*parts)
    print(peak_of_this_process())


if __name__ == "__main__":
    main(*sys.argv[1:])
