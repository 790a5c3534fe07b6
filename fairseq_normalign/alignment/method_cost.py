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
QUICK = 2.0  # seconds: what takes longer is measured once


class Cost(NamedTuple):
    """What it takes to run a model in some way."""

    seconds: float  # for 1,000 pairs
    megabytes: float | None  # at most at once, above the model; None where that is not known


class Costs(NamedTuple):
    """What each method takes by itself, at one layer, beside a plain forward pass."""

    pairs: int  # how many it was measured on
    batch_tokens: int
    forward: Cost
    methods: dict[str, Cost]

    def forwards(self, method: str) -> float:
        """How many forward passes take as long."""
        return self.methods[method].seconds / self.forward.seconds


Run = Callable[[list[Pair]], object]  # runs the model on a batch


def method_costs(
    forcing: TeacherForcing,
    pairs: Sequence[Pair],
    places: Mapping[str, Evidence],
    *,
    batch_tokens: int,
    title: str = "cost",
) -> Costs | None:
    """What each method takes, forward pass and merging of pieces included; None without pairs.

    Each method runs by itself, and takes turns with plain forward passes, so that a slow moment of
    the machine meets both.

    Args:
        pairs: a sample of a corpus.
        places: a layer and step of each method.
        title: of the progress bar.
    """
    batches = []
    for batch in numbered_batches(pairs, max_tokens=batch_tokens):
        batches.append([pair for _, pair in batch])
    if not batches:
        return None
    clock = Clock(next(forcing.model.parameters()).device)
    plain = partial(_forward, forcing)
    clock.measured(plain, batches)  # what is done once for all does not count
    forwards = [clock.measured(plain, batches)]
    costs = {}
    for method, evidence in over(places.items(), title, unit="methods"):
        run = partial(_soft, forcing, evidence)
        rounds = [clock.measured(run, batches)]
        while rounds[0].seconds < QUICK and len(rounds) < ROUNDS:
            forwards.append(clock.measured(plain, batches))
            rounds.append(clock.measured(run, batches))
        costs[method] = _for_thousand(rounds, len(pairs))
    return Costs(len(pairs), batch_tokens, _for_thousand(forwards, len(pairs)), costs)


def _forward(forcing: TeacherForcing, pairs: list[Pair]) -> None:
    with torch.no_grad():
        forcing.forward(pairs)


def _soft(forcing: TeacherForcing, evidence: Evidence, pairs: list[Pair]) -> None:
    for _ in soft_alignments(forcing, pairs, [evidence]):
        pass


def _for_thousand(rounds: Sequence[Cost], pairs: int) -> Cost:
    """The best round: what one takes more than another is not of the method."""
    fastest = min(cost.seconds for cost in rounds)
    known = [cost.megabytes for cost in rounds if cost.megabytes is not None]
    return Cost(1000 * fastest / pairs, min(known, default=None))


class Clock:
    """Measures runs on a device.

    On a processor, seconds are those that it worked for this process, and other work on the machine
    counts for none. Memory is what the process holds, as Linux counts it. On a graphics card,
    seconds go by on the wall, and memory is what PyTorch has taken there.
    """

    def __init__(self, device: torch.device):
        self.device = device

    def measured(self, run: Run, batches: Sequence[list[Pair]]) -> Cost:
        """What one run over some batches takes."""
        before = self._begin()
        start = self._seconds()
        for batch in batches:
            run(batch)
        seconds = self._seconds() - start
        return Cost(seconds, self._above(before))

    def _seconds(self) -> float:
        if self.device.type == "cpu":
            return time.process_time()
        torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def _begin(self) -> float | None:
        """Forgets earlier peaks; returns the megabytes that are held now."""
        gc.collect()
        if self.device.type == "cpu":
            return resident_memory()
        torch.cuda.reset_peak_memory_stats(self.device)
        return torch.cuda.memory_allocated(self.device) / 1e6

    def _above(self, before: float | None) -> float | None:
        if before is None:
            return None
        if self.device.type == "cpu":
            return max(0.0, _status("VmHWM") - before)
        return torch.cuda.max_memory_allocated(self.device) / 1e6 - before


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
