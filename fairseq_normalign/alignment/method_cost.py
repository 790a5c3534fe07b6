"""What soft methods cost beside a plain forward pass: time, and memory at once."""

from __future__ import annotations

import ctypes
import gc
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from fairseq_normalign.attention.methods import OWN_PASS, method_of
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.attention.soft_alignments import soft_alignments
from fairseq_normalign.host.batches import numbered_batches
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.progress import over

SAMPLE = 100  # how many pairs it is measured on
ROUNDS = 3  # the fastest counts; methods that run the model by themselves have one
FORWARD = "(forward pass)"


# What it takes to run a model in some way: seconds; and megabytes at most at once, above the model,
# NaN where that is not known.
Cost = tuple[float, float]


def method_costs(
    forcing: TeacherForcing,
    pairs: Sequence[Pair],
    places: Mapping[str, Evidence],
    batch_tokens: int,
) -> dict[str, list[float | None]]:
    """Of each method, and of a plain forward pass: × forward, seconds for 1,000 pairs, megabytes.

    Forward pass and merging of pieces are included. Each method runs by itself, and takes turns
    with plain forward passes, so that a slow moment of the machine meets both.

    Args:
        pairs: of a corpus, whose first ``SAMPLE`` are taken; without any, nothing is measured.
        places: a layer and step of each method.
    """
    sample = pairs[:SAMPLE]
    batches = []
    for batch in numbered_batches(sample, max_tokens=batch_tokens):
        batches.append([pair for _, pair in batch])
    if not batches:
        return {}
    device = next(forcing.model.parameters()).device

    def forward() -> None:
        for batch in batches:
            with torch.no_grad():
                forcing.forward(batch)

    def align(evidence: Evidence) -> None:
        for batch in batches:
            for _ in soft_alignments(forcing, batch, [evidence]):
                pass

    measured(forward, device)  # what is done once for all does not count
    rounds = {FORWARD: [measured(forward, device)]}
    for method, evidence in over(places.items(), "cost", unit="methods"):
        is_slow = method_of(method).needs == OWN_PASS
        rounds[method] = []
        for _ in range(1 if is_slow else ROUNDS):
            rounds[method].append(measured(partial(align, evidence), device))
            rounds[FORWARD].append(measured(forward, device))
    return _for_thousand(rounds, len(sample))


def _for_thousand(
    rounds: Mapping[str, Sequence[Cost]], pairs: int
) -> dict[str, list[float | None]]:
    """The best rounds: what one takes more than another is not of the method."""
    forward_seconds, _ = np.min(rounds[FORWARD], axis=0).tolist()
    costs: dict[str, list[float | None]] = {}
    for name, of_name in rounds.items():
        seconds, megabytes = np.min(of_name, axis=0).tolist()
        times = [seconds / forward_seconds, 1000 * seconds / pairs]
        costs[name] = [*times, None if math.isnan(megabytes) else megabytes]
    return costs


def measured(run: Callable[[], object], device: torch.device) -> Cost:
    """What one run takes: its seconds, and the most memory at once above what is held before.

    On a processor, seconds are those that it worked for this process, and other work on the machine
    counts for none. Memory is what the process holds, as Linux counts it. On a graphics card,
    seconds go by on the wall, and memory is what PyTorch has taken there.
    """
    gc.collect()
    if device.type == "cpu":
        before = resident_memory()
        start = time.process_time()
        run()
        seconds = time.process_time() - start
        return seconds, max(_status("VmHWM") - before, 0.0)  # in this order NaN stays
    torch.cuda.reset_peak_memory_stats(device)
    allocated = torch.cuda.memory_allocated(device)
    torch.cuda.synchronize(device)
    start = time.perf_counter()
    run()
    torch.cuda.synchronize(device)
    seconds = time.perf_counter() - start
    return seconds, (torch.cuda.max_memory_allocated(device) - allocated) / 1e6


def resident_memory() -> float:
    """Megabytes that this process holds, its peak being set to them; NaN but on Linux.

    What it has freed is given back to the system before: C libraries keep it, and a run that takes
    it again would seem to need none.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        return _status("VmRSS")
    except (OSError, AttributeError, TypeError):
        return math.nan


def _status(name: str) -> float:
    """A number of Linux's file about this process, in megabytes; NaN if there is none."""
    if not Path("/proc/self/status").exists():
        return math.nan
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return math.nan if found is None else int(found[1]) * 1024 / 1e6
