"""Links -> counts -> alignment error rate, with confidence intervals and significance.

Och and Ney (2003), for links A, sure links S and possible links P ⊇ S, summed over the corpus:
precision |A∩P|/|A|, recall |A∩S|/|S|, AER = 1 − (|A∩P| + |A∩S|) / (|A| + |S|).
A ratio whose denominator is 0 is undefined: nan.
"""

from __future__ import annotations

import math
import operator
import warnings
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import islice, zip_longest
from typing import Any, NamedTuple

import numpy as np

from fairseq_normalign.errors import InputError
from fairseq_normalign.progress import bar, over
from fairseq_normalign.results.blocks import Cell, Table
from fairseq_normalign.text.links import Gold, GoldFile, Link, LinkFile, read_together
from fairseq_normalign.version import __version__


class Counts(NamedTuple):
    """What a score is computed from. Counts of sentences, or of corpora, add up."""

    links: int = 0
    sure: int = 0
    in_possible: int = 0
    in_sure: int = 0

    def __add__(self, other: Counts) -> Counts:  # type: ignore[override]  # a sum, not a longer tuple
        return Counts(*map(operator.add, self, other))

    @property
    def aer(self) -> float:
        return 1 - _ratio(self.in_possible + self.in_sure, self.links + self.sure)

    @property
    def precision(self) -> float:
        return _ratio(self.in_possible, self.links)

    @property
    def recall(self) -> float:
        return _ratio(self.in_sure, self.sure)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from fairseq_normalign.results.notebook import html_table

        measures = self.measures()
        return html_table(Table(list(measures), [list(measures.values())], decimals=1))

    def measures(self, alpha: float | None = None) -> dict[str, Cell]:
        """All that is reported, ratios in percent; None where a ratio is undefined."""
        ratios = {"AER": self.aer, "P": self.precision, "R": self.recall, "F1": self.f()}
        if alpha is not None:
            ratios[f"F_{alpha}"] = self.f(alpha)
        shown = {name: percent(ratio) for name, ratio in ratios.items()}
        return {**shown, "links": self.links, "sure": self.sure}

    def f(self, alpha: float = 0.5) -> float:
        """F_α = 1 / (α/P + (1−α)/R) (Fraser and Marcu, 2007); 0 if nothing right was found."""
        if self.in_possible == 0 or self.in_sure == 0:
            return math.nan if math.isnan(self.precision + self.recall) else 0.0
        return 1 / (alpha / self.precision + (1 - alpha) / self.recall)

    @classmethod
    def total(cls, rows: np.ndarray) -> Counts:
        """Those of a corpus, whose sentence pairs have the counts (N, 4)."""
        return cls(*rows.sum(axis=0).tolist())


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def count(links: Set[Link], gold: Gold) -> Counts:
    """The counts of one sentence pair."""
    in_possible = len(links & gold.possible)
    in_sure = len(links & gold.sure)
    return Counts(len(links), len(gold.sure), in_possible, in_sure)


def score_links(links: Iterable[Iterable[Link]], gold: Iterable[Gold]) -> Counts:
    """Scores links (source, target), from 0, against the gold of the same pairs.

    Examples:
        >>> score_links(aligner.align_many(pairs), GoldFile("test.talp", index=1)).aer
    """
    total = Counts()
    for of_pair, of_gold in zip_longest(links, gold):
        if of_pair is None or of_gold is None:
            shorter = "links" if of_pair is None else "gold"
            raise InputError(f"the {shorter} end early; pass links and gold of the same pairs")
        total += count(set(of_pair), of_gold)
    return total


LINES = {"all": (0, None), "odd": (0, None, 2), "even": (1, None, 2)}  # counted from 1


def score(
    gold: GoldFile,
    systems: Sequence[LinkFile],
    *,
    lines: str = "all",
    beside: Sequence[Any] = (),
    watchers: Sequence[Callable[..., None]] = (),
) -> list[np.ndarray]:
    """The counts of each sentence pair, (N, 4), for each system, in one pass over the files.

    A sentence pair takes 32 bytes for each system.

    Args:
        lines: which sentence pairs count, a name in ``LINES``: to choose options on one half and
            report on the other.
        beside: more files to read along, e.g. the texts.
        watchers: called for each sentence pair with its number from 1, the gold, and a list of the
            systems' links followed by what ``beside`` holds.
    """
    tables = [array("q") for _ in systems]
    pairs = enumerate(read_together(gold, *systems, *beside), 1)
    with bar("pairs") as progress:
        for number, (of_gold, *columns) in islice(pairs, *LINES[lines]):
            for table, links in zip(tables, columns, strict=False):
                table.extend(count(links, of_gold))
            for watch in watchers:
                watch(number, of_gold, columns)
            progress.update()
    return [np.array(table, dtype=np.int64).reshape(-1, 4) for table in tables]


def aers(totals: np.ndarray) -> np.ndarray:
    """AER of each row of counts, (…, 4) -> (…)."""
    by_count = np.moveaxis(np.asarray(totals, dtype=np.float64), -1, 0)  # (4, …)
    links, sure, in_possible, in_sure = by_count
    with np.errstate(invalid="ignore"):
        return 1 - (in_possible + in_sure) / (links + sure)


def bootstrap(counts: np.ndarray, *, samples: int = 1000, seed: int = 12345) -> np.ndarray:
    """AER of corpora drawn from the sentences with replacement (Koehn, 2004).

    Args:
        counts: for each sentence pair the counts of one system, (N, 4), or of many, (N, E, 4).

    Returns:
        (samples,) or (samples, E).
    """
    counts = np.asarray(counts, dtype=np.float64)
    random = np.random.default_rng(seed)
    size = len(counts)
    totals = np.empty((samples, *counts.shape[1:]))
    for sample in over(totals, "bootstrap", unit="samples"):  # memory stays at N
        drawn = np.bincount(random.integers(size, size=size), minlength=size)
        sample[:] = np.tensordot(drawn, counts, axes=1)
    return aers(totals)


def interval(
    counts: np.ndarray, *, level: float = 0.95, samples: int = 1000, seed: int = 12345
) -> tuple[float, float]:
    """The bootstrap percentile interval of AER, over the samples where AER is defined."""
    of_one = np.asarray(counts).reshape(-1, 1, 4)
    return intervals(of_one, level=level, samples=samples, seed=seed)[0]


def intervals(
    counts: np.ndarray, *, level: float = 0.95, samples: int = 1000, seed: int = 12345
) -> list[tuple[float, float]]:
    """The same of many systems, (N, E, 4), whose sentences are drawn once for all of them."""
    if len(counts) == 0:
        return [(math.nan, math.nan)] * counts.shape[1]
    scores = bootstrap(counts, samples=samples, seed=seed)  # (samples, E)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice")  # no sample has a defined AER
        low, high = np.nanpercentile(scores, [50 * (1 - level), 50 * (1 + level)], axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def paired_p_value(
    a: np.ndarray, b: np.ndarray, *, samples: int = 1000, seed: int = 12345
) -> float:
    """How often two systems differ as much in AER if sentences are swapped at random.

    Approximate randomization, two-sided (Noreen, 1989; Riezler and Maxwell, 2005). ``a`` and ``b``
    hold the counts of the same N sentence pairs, (N, 4) each. Undefined, nan, if the AER of one of
    them is; a swap that makes it so counts as one that differs as much.
    """
    a = np.asarray(a, dtype=np.float64)
    b = np.asarray(b, dtype=np.float64)
    random = np.random.default_rng(seed)
    total_a, total_b = a.sum(0), b.sum(0)
    change = b - a
    observed = abs(aers(total_a) - aers(total_b))
    if np.isnan(observed):
        return math.nan
    moved = np.empty((samples, 4))
    for sample in over(moved, "randomization", unit="samples"):  # memory stays at N
        sample[:] = random.integers(2, size=len(a)) @ change
    differences = np.abs(aers(total_a + moved) - aers(total_b - moved))
    smaller = np.sum(differences < observed - 1e-12)
    return float((1 + samples - smaller) / (1 + samples))


def signature(options: Mapping[str, object]) -> str:
    """Everything that changes the number, in one string: ``AER|ref-index:1|…|version:0.1.0``."""
    choices = [f"{key}:{value}" for key, value in options.items()]
    return "|".join(["AER", *choices, f"version:{__version__}"])


def percent(value: float) -> float | None:
    """A ratio for JSON: in percent, and None if it is undefined."""
    return None if math.isnan(value) else round(100 * value, 6)


def ends(interval: tuple[float, float] | None) -> tuple[float | None, float | None]:
    """The same of an interval, if there is one."""
    return (None, None) if interval is None else (percent(interval[0]), percent(interval[1]))
