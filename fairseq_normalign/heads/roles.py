"""What a head looks at: a position, or the rarest token of the sentence.

These are roles of Voita et al. (2019); the third, syntax, is in ``heads.syntax``.

Everything is read off the maxima of the weights. Marks such as </s> are never counted as a maximum,
except in the pattern ``last``.
"""

from __future__ import annotations

import random
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fairseq_normalign.heads.attention_pass import (
    Cells,
    Seen,
    Tally,
    by_head,
    choosing,
    maxima,
    watch,
)
from fairseq_normalign.heads.head_scores import RARE_TOP
from fairseq_normalign.heads.profile import Finding
from fairseq_normalign.heads.profiling import Survey
from fairseq_normalign.heads.rare_tokens import RareTokens, rare_tokens, unusable
from fairseq_normalign.host.pairs import Pair, Sentence
from fairseq_normalign.names import Head

# Raganato and Tiedemann (2018); their fourth is `last`.
PATTERNS = {"itself": 0, "previous": -1, "next": 1}
RANKS = {"rarest": 1, "two rarest": 2}
MOVED = 0.1  # share of the test tokens that change places in our control


def offsets(weights: Tensor, seen: Cells) -> Tensor:
    """Where the maximum of each word lies relative to it, (H, N), in self-attention.

    Words without a choice are left out.
    """
    positions = torch.arange(weights.shape[2], device=weights.device)
    return by_head(maxima(weights, seen.words) - positions, choosing(seen))


def last_hits(weights: Tensor, seen: Cells) -> tuple[Tensor, int]:
    """How many words have their maximum on the last token, by head, (H,); and of how many words.

    The last token of a sentence is usually </s>.

    Raganato and Tiedemann (2018) name this pattern with the end of sentence as a token: here, marks
    count.
    """
    last = seen.visible.any(1).sum(1) - 1  # (B,)
    hits = maxima(weights, seen.visible) == last[:, None, None]
    return by_head(hits, choosing(seen)).sum(1), int(choosing(seen).sum())


def rarest(frequencies: Tensor, keys: Tensor, *, rank: int = 1) -> Tensor:
    """Tokens of a sentence whose frequency is among its ``rank`` lowest, (B, S).

    Equal ones share a place.

    Args:
        frequencies: of each token in the training data, (B, S).
        keys: tokens that are words, (B, S).
    """
    ordered = frequencies.masked_fill(~keys, float("inf")).sort(1).values
    differs = ordered[:, 1:] != ordered[:, :-1]  # from the one before
    place = functional.pad(differs, (1, 0)).cumsum(1)  # from 0
    bar = ordered.masked_fill(place >= rank, 0).amax(1, keepdim=True)
    return keys & (frequencies <= bar)


def rare_hits(
    weights: Tensor, seen: Cells, rare: Tensor, examined: Tensor
) -> dict[str, tuple[Tensor, int]]:
    """How often the maximum is on a rare token, by head, (H,), and of how many cases.

    ``tokens``: words whose maximum is a rare token; ``sentences``: sentences where the token that
    gets most weight from all words together is one; ``chance``: the share of rare tokens among
    those seen, as if the maximum were any.

    Args:
        rare: tokens that count as rare, (B, S).
        examined: sentences to look at, (B,).
    """
    queries = choosing(seen) & examined[:, None]  # (B, T)
    keys = seen.words & queries[:, :, None]
    rare_at = rare.unsqueeze(1).expand(weights.shape[:2] + rare.shape[1:])  # (B, H, S)
    hits = rare_at.gather(2, maxima(weights, seen.words))  # (B, H, T)
    together = (weights * keys.unsqueeze(1)).sum(2, keepdim=True)  # (B, H, 1, S)
    favourites = rare_at.gather(2, maxima(together, keys.any(1, keepdim=True)))  # (B, H, 1)
    sentences = queries.any(1, keepdim=True)  # (B, 1)
    chance = (keys & rare.unsqueeze(1)).sum(2) / keys.sum(2).clamp(min=1)  # (B, T)
    return {
        "tokens": (by_head(hits, queries).sum(1), int(queries.sum())),
        "sentences": (by_head(favourites, sentences).sum(1), int(sentences.sum())),
        "chance": (chance.sum().expand(weights.shape[1]), int(queries.sum())),
    }


def rare_influence(relevance: np.ndarray, words: np.ndarray, rare: np.ndarray) -> float | None:
    """How many times the relevance of a word's token the rare ones have, mean over predictions.

    1 is what they have if all tokens count alike. Relevance counts by its absolute value; None if
    nothing is said: a single token, or no relevance in any.

    Args:
        relevance: of source tokens, (P, S).
        words: tokens that are words, (S,).
        rare: those of them that count as rare, (S,).
    """
    sizes = np.abs(relevance[:, words])  # (P, N)
    means = sizes.mean(1) if sizes.size else np.zeros(0)
    told = means > 0
    if sizes.shape[1] < 2 or not told.any():
        return None
    of_rare = sizes[:, rare[words]].mean(1)
    return float((of_rare[told] / means[told]).mean())


class Positions:
    """Relative positions of the maxima of some heads, as they come."""

    def __init__(self) -> None:
        self.counts: list[Counter] = []

    def add(self, relative: Tensor) -> None:
        """Adds positions relative to the query, (H, N), as :func:`offsets` gives them."""
        self.counts = self.counts or [Counter() for _ in relative]
        for counter, of_head in zip(self.counts, relative, strict=True):
            positions, cases = of_head.unique(return_counts=True)
            counter.update(dict(zip(positions.tolist(), cases.tolist(), strict=True)))

    def favourite(self, head: int) -> tuple[int, float] | None:
        """The most frequent position and its share; None without any case."""
        for position, _ in self.counts[head].most_common(1):
            return position, self.share(head, position)
        return None

    def share(self, head: int, offset: int) -> float:
        counts = self.counts[head]
        return counts[offset] / max(1, sum(counts.values()))


class PositionWatcher:
    """Relative positions of maxima in self-attention; in the encoder, also the last token."""

    KEPT = ("positions", "last")

    def __init__(self, survey: Survey) -> None:
        self.threshold = survey.options.positional_threshold
        self.positions: dict[tuple[str, int], Positions] = defaultdict(Positions)
        self.last = Tally()

    def __call__(self, seen: Seen) -> None:
        kind, _ = seen.attention
        if kind != "cross":
            self.positions[seen.attention].add(offsets(seen.recorded.weights, seen.cells))
        if kind == "encoder":
            hits, cases = last_hits(seen.recorded.weights, seen.cells)
            self.last.add(seen.attention, hits.cpu(), cases)

    def result(self) -> Finding:
        """The favourite position, and shares of the patterns of Raganato and Tiedemann (2018)."""
        details = {}
        for attention, positions in self.positions.items():
            for number in range(len(positions.counts)):
                head = Head(*attention, number)
                favourite = positions.favourite(number)
                if favourite is not None:
                    offset, share = favourite
                    patterns = self._patterns(head, positions)
                    details[head] = {"offset": offset, "share": share, "patterns": patterns}
        settings = {"positional": self.threshold} if details else {}
        return Finding(details={"positions": details}, settings=settings)

    def _patterns(self, head: Head, positions: Positions) -> dict[str, float]:
        shares = {}
        for name, offset in PATTERNS.items():
            if offset <= 0 or head.kind == "encoder":  # the decoder sees nothing that comes later
                shares[name] = positions.share(head.head, offset)
        last = self.last.means()
        if head in last:
            shares["last"] = last[head]
        return shares


class RareWatcher:
    """How often encoder heads look at the rarest tokens of the sentence."""

    KEPT = ("tallies",)

    def __init__(self, tokens: RareTokens):
        self.tokens = tokens
        self.tallies: dict[tuple[str, str], Tally] = defaultdict(Tally)
        self.batch: Sequence[Pair] | None = None

    def __call__(self, seen: Seen) -> None:
        if seen.attention[0] != "encoder":
            return
        if seen.pairs is not self.batch:  # every layer sees the same batch
            self.batch = seen.pairs
            self.counts = self.tokens.counts(seen.pairs).to(seen.cells.words.device)  # (B, S)
        keys = seen.cells.words.any(1)  # (B, S)
        sentences = self.tokens.examined(self.counts, keys)
        for name, rank in RANKS.items():
            rare = rarest(self.counts, keys, rank=rank)
            hits = rare_hits(seen.recorded.weights, seen.cells, rare, sentences)
            for unit, (sums, cases) in hits.items():
                self.tallies[name, unit].add(seen.attention, sums.cpu(), cases)

    def sentences(self) -> int:
        """How many sentences were looked at."""
        return max(self.tallies["rarest", "sentences"].cases.values(), default=0)

    def details(self) -> dict[Head, dict]:
        """For each head, rank and unit (tokens, sentences, chance) the mean."""
        means: dict[Head, dict] = defaultdict(dict)
        for (rank, unit), tally in self.tallies.items():
            for head, mean in tally.means().items():
                means[head].setdefault(rank, {})[unit] = mean
        return dict(means)


class RareRole:
    """Maxima on rare tokens, and a control: the same after some tokens have changed places.

    Only sentences count whose rarest token is not among the most frequent (Voita et al., 2019). If
    there are none, or if counts do not tell tokens apart, there is nothing to measure: that is
    said, and refused if the options ask for it.
    """

    KEPT = ("tallies",)

    def __init__(self, survey: Survey):
        self.survey = survey
        self.watcher: RareWatcher | None = None
        tokens = rare_tokens(survey)
        if isinstance(tokens, str):
            _tell(tokens)
        else:
            self.watcher = RareWatcher(tokens)

    def __call__(self, seen: Seen) -> None:
        if self.watcher is not None:
            self.watcher(seen)

    @property
    def tallies(self) -> dict[tuple[str, str], Tally]:
        """The sums of the watcher; none if nothing is measured."""
        return {} if self.watcher is None else self.watcher.tallies

    @tallies.setter
    def tallies(self, tallies: dict[tuple[str, str], Tally]) -> None:
        if self.watcher is not None:
            self.watcher.tallies = tallies

    def result(self) -> Finding:
        if self.watcher is None:
            return Finding()
        rare = self.watcher.details()
        if not rare:
            top = self._top()
            reason = f"the rarest token of every sentence is among the {top} most frequent"
            _tell(unusable(self.survey, reason))
            return Finding()
        options = self.survey.options
        control = RareWatcher(self.watcher.tokens)
        pairs = list(moved_pairs(self.survey.pairs, seed=options.seed))
        watch(
            self.survey.forcing,
            pairs,
            [control],
            max_tokens=options.max_tokens,
            sums=self.survey.sums,
            name="attention-moved",
        )
        own = options.counts is None
        settings = {
            "frequencies": "dictionary" if own else Path(options.counts_name).name,
            "rare-top": self._top(),
            "rare-sentences": self.watcher.sentences(),
            "seed": options.seed,
            "rare": options.rare_threshold,
        }
        return Finding(details={"rare": rare, "rare_moved": control.details()}, settings=settings)

    def _top(self) -> int:
        top = self.survey.options.rare_top
        return RARE_TOP if top is None else top


def _tell(reason: str) -> None:
    warnings.warn(f"no rare-token roles: {reason}", stacklevel=2)


def moved(pair: Pair, generator: random.Random, share: float = MOVED) -> Pair:
    """The pair with a share of its source tokens, two at least, having changed places.

    What is left of a head's maxima tells whether it looks for the rare token wherever it is. This
    is not Sennrich's control, which is about training: see ``plugin.source_noise``.
    """
    places = [place for place, word in enumerate(pair.source.words) if word >= 0]
    wanted = max(2, round(share * len(places)))
    chosen = generator.sample(places, min(len(places), wanted))
    order = list(range(len(pair.source.words)))
    for place, other in zip(chosen, chosen[1:] + chosen[:1], strict=True):
        order[place] = other
    words = [pair.source.words[place] for place in order]
    return pair._replace(source=Sentence(pair.source.tokens[order], words, pair.source.text))


def moved_pairs(pairs: Iterable[Pair], *, seed: int = 1) -> Iterator[Pair]:
    generator = random.Random(seed)
    return (moved(pair, generator) for pair in pairs)
