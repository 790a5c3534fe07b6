"""What soft methods cost beside a plain forward pass: time, and memory at once."""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.attention.soft_alignments import soft_alignments
from fairseq_normalign.host.batches import numbered_batches
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.progress import over

SAMPLE = 100  # how many pairs it is measured on
ROUNDS = 3  # the fastest counts
FORWARD = "(forward pass)"
QUICK = 2.0  # seconds: what takes longer is measured once


class Cost(NamedTuple):
    """What it takes to run a model in some way."""

    seconds: float
    megabytes: float | None  # at most at once, above the model; None where that is not known


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
        run = partial(align, evidence)
        rounds[method] = [measured(run, device)]
        while rounds[method][0].seconds < QUICK and len(rounds[method]) < ROUNDS:
            rounds[FORWARD].append(measured(forward, device))
            rounds[method].append(measured(run, device))
    return _for_thousand(rounds, len(sample))


def _for_thousand(
    rounds: Mapping[str, Sequence[Cost]], pairs: int
) -> dict[str, list[float | None]]:
    """The best rounds: what one takes more than another is not of the method."""
    fastest = {name: min(cost.seconds for cost in of_name) for name, of_name in rounds.items()}
    costs: dict[str, list[float | None]] = {}
    for name, seconds in fastest.items():
        known = [cost.megabytes for cost in rounds[name] if cost.megabytes is not None]
        times = [seconds / fastest[FORWARD], 1000 * seconds / pairs]
        costs[name] = [*times, min(known, default=None)]
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
        return Cost(seconds, None if before is None else max(0.0, _status("VmHWM") - before))
    torch.cuda.reset_peak_memory_stats(device)
    allocated = torch.cuda.memory_allocated(device)
    torch.cuda.synchronize(device)
    start = time.perf_counter()
    run()
    torch.cuda.synchronize(device)
    seconds = time.perf_counter() - start
    return Cost(seconds, (torch.cuda.max_memory_allocated(device) - allocated) / 1e6)


def resident_memory() -> float | None:
    """Megabytes that this process holds, its peak being set to them; None but on Linux.

    What it has freed is given back to the system before: C libraries keep it, and a run that takes
    it again would seem to need none.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        return _status("VmRSS")
    except (OSError, AttributeError, TypeError, LookupError):
        return None


def _status(name: str) -> float:
    """A number of Linux's file about this process, in megabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        field, _, value = line.partition(":")
        if field == name:
            return int(value.split()[0]) * 1024 / 1e6
    raise LookupError(name)
