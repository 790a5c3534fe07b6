"""How good links are, measured without gold: how well linked words predict each other.

Translations repeat. If links are right, a word's links in the rest of the corpus predict what it is
linked with here; if they are not, they predict no more than how frequent words are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np

from fairseq_normalign.alignment.lexicon import SMOOTHING
from fairseq_normalign.files import short_names
from fairseq_normalign.results.blocks import Block, Cell, Table
from fairseq_normalign.results.result import Result
from fairseq_normalign.text.links import Link
from fairseq_normalign.version import __version__

Linked = tuple[Sequence[str], Sequence[str], Sequence[Link]]  # source, target, links of words


class Gains(NamedTuple):
    """What the links of each pair save, in nats, and how many words it has, (N,)."""

    saved: np.ndarray
    words: np.ndarray


def word_gain(pairs: Sequence[Linked]) -> float:
    """The gain of a corpus, in nats per word."""
    saved, words = gains(pairs)
    return float(saved.sum() / max(words.sum(), 1))


def gains(pairs: Sequence[Linked]) -> Gains:
    """What is saved by coding each word given the words that it is linked with.

    A word w that is linked with v_1 … v_k saves log (1/k Σ_i p(w | v_i)) − log u(w), where u(w) is
    how frequent it is, and p(w | v) = (n(v, w) + β u(w)) / (n(v) + β) comes from the links of all
    other pairs. A word without links saves nothing. Both directions count.
    """
    turned = []
    for source, target, links in pairs:
        turned.append((target, source, [(t, s) for s, t in links]))
    words = [len(source) + len(target) for source, target, _ in pairs]
    return Gains(_saved(pairs) + _saved(turned), np.array(words))


def _saved(pairs: Sequence[Linked]) -> np.ndarray:
    """What the target words of each pair save, given source words, (N,)."""
    frequency: Counter[str] = Counter()
    linked: Counter[tuple[str, str]] = Counter()
    given: Counter[str] = Counter()
    for source, target, links in pairs:
        frequency.update(target)
        linked.update((source[s], target[t]) for s, t in links)
        given.update(source[s] for s, _ in links)
    total = sum(frequency.values()) + 0.5 * len(frequency)
    saved = np.zeros(len(pairs))
    for number, (source, target, links) in enumerate(pairs):
        own = Counter((source[s], target[t]) for s, t in links)
        own_given = Counter(source[s] for s, _ in links)
        ratios: dict[int, list[float]] = {}
        for s, t in links:
            word, other = target[t], source[s]
            share = (frequency[word] + 0.5) / total
            together = linked[other, word] - own[other, word]
            alone = given[other] - own_given[other]
            probability = (together + SMOOTHING * share) / (alone + SMOOTHING)
            ratios.setdefault(t, []).append(probability / share)
        saved[number] = sum(log(sum(of_word) / len(of_word)) for of_word in ratios.values())
    return saved


@dataclass(frozen=True)
class GainResult(Result):
    """Gains of some alignments of one corpus, with 95 % bootstrap intervals over its pairs.

    Args:
        names: of the alignments.
        systems: what each of them gains.
        samples: of the bootstrap.
        seed: of the samples.
    """

    names: Sequence[str]
    systems: Sequence[Gains]
    samples: int = 1000
    seed: int = 12345

    kind = "gain"
    title = "Alignments without gold"
    about = "Gain in nats per word: the higher, the better linked words predict each other."

    @property
    def signature(self) -> dict[str, object]:  # type: ignore[override]
        return {"samples": self.samples, "seed": self.seed, "version": __version__}

    @property
    def findings(self) -> list[str]:
        best = max(zip(self._gains(), short_names(self.names), strict=True))
        return [f"{best[1]} has the highest gain."]

    def _gains(self) -> list[float]:
        return [float(saved.sum() / max(words.sum(), 1)) for saved, words in self.systems]

    def blocks(self) -> list[Block]:
        columns = ["system", "gain", "95 % from", "to"]
        if len(self.systems) > 1:
            columns += ["difference to the first from", "difference to"]
        sampled = self._sampled()  # (systems, samples)
        rows: list[list[Cell]] = []
        for name, gain, of_system in zip(
            short_names(self.names), self._gains(), sampled, strict=True
        ):
            row: list[Cell] = [name, gain, *_interval(of_system)]
            if len(self.systems) > 1:
                row += [None, None] if not rows else _interval(of_system - sampled[0])
            rows.append(row)
        return [Table(columns, rows, decimals=3, name="gain", plain=True)]

    def _sampled(self) -> np.ndarray:
        """The gains of corpora that are drawn from the pairs: the same draws for all systems."""
        pairs = len(self.systems[0].words)
        random = np.random.default_rng(self.seed)
        sampled = np.zeros((len(self.systems), self.samples))
        for sample in range(self.samples):
            drawn = random.integers(pairs, size=pairs)
            for place, (saved, words) in enumerate(self.systems):
                sampled[place, sample] = saved[drawn].sum() / max(words[drawn].sum(), 1)
        return sampled


def _interval(values: np.ndarray) -> list[Cell]:
    return [float(end) for end in np.quantile(values, (0.025, 0.975))]
