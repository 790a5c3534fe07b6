"""What a head looks at: a position, or the rarest token of the sentence.

These are roles of Voita et al. (2019); the third, syntax, is in ``heads.syntax``.

Everything is read off the maxima of the weights. Marks such as </s> are never counted as a maximum,
except in the pattern ``last``.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
from fairseq_normalign.heads.head_scores import ProfileOptions
from fairseq_normalign.heads.profile import Finding, missed
from fairseq_normalign.heads.profiling import HeadMeasure, Known, Pairs
from fairseq_normalign.heads.rare_tokens import (
    FIRST_PAIRS,
    RareTokens,
    prepared_rare,
    rare_tokens,
    top_of,
    unusable,
)
from fairseq_normalign.host.pairs import Pair, Sentence
from fairseq_normalign.host.raw_corpus import ChunkReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.results.blocks import Block, Note, Rows, Table
from fairseq_normalign.runs.chunks import Chunk

# Raganato and Tiedemann (2018); their fourth is `last`.
PATTERNS = {"itself": 0, "previous": -1, "next": 1}
RANKS = {"rarest": 1, "two rarest": 2}
UNITS = ("tokens", "sentences", "chance")
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


def place_of(offset):
    """Where 0, -1, 1, -2, 2, … are counted: at 0, 1, 2, 3, 4, …, so that arrays can be added."""
    return 2 * abs(offset) - (offset < 0)


def position_counts(relative: np.ndarray) -> np.ndarray:
    """How often each head has each relative position, (H, M), by ``place_of``.

    Args:
        relative: positions relative to the query, (H, N), as :func:`offsets` gives them.
    """
    places = place_of(relative)
    width = places.max(initial=place_of(1)) + 1
    counts = [np.bincount(of_head, minlength=width) for of_head in places]
    return np.array(counts, dtype=np.int64).reshape(len(relative), width)


def favourite(counts: np.ndarray) -> tuple[int, float]:
    """The most frequent position of a head and its share; of several, the nearest.

    Args:
        counts: of the head, (M,).
    """
    place = int(counts.argmax())
    distance = (place + 1) // 2
    return -distance if place % 2 else distance, float(counts[place] / counts.sum())


class PositionWatcher:
    """Relative positions of maxima in self-attention; in the encoder, also the last token."""

    def __init__(self, options: ProfileOptions):
        self.threshold = options.positional_threshold
        self.tally = Tally()

    def __call__(self, seen: Seen) -> None:
        kind, _ = seen.attention
        weights = seen.recorded.weights
        if kind != "cross":
            counts = position_counts(offsets(weights, seen.cells).cpu().numpy())
            self.tally.join_heads("positions", seen.attention, counts)
        if kind == "encoder":
            hits, cases = last_hits(weights, seen.cells)
            self.tally.add(seen.attention, hits.cpu(), cases, "last")

    def result(self) -> Finding:
        """The favourite position, and shares of the patterns of Raganato and Tiedemann (2018)."""
        shares, labels, roles = {}, {}, {}
        rows: Rows = []
        last = self.tally.means("last")
        for head, counts in self.tally.by_head("positions").items():
            if not counts.any():
                continue
            position, shares[head] = favourite(counts)
            labels[head] = f"{position:+d}" if position else "0"
            roles[head] = role("positional", labels[head], shares[head], self.threshold)
            patterns = {}
            for name, offset in PATTERNS.items():
                if offset <= 0 or head.kind == "encoder":  # the decoder sees nothing that is later
                    patterns[name] = float(counts[place_of(offset)] / counts.sum())
            if head in last:
                patterns["last"] = last[head]
                roles[head] += role("last", "last", last[head], self.threshold)
            rows += [[str(head), name, 100 * share] for name, share in patterns.items()]
        if not shares:
            return Finding()
        table = Table(["head", "pattern", "share %"], rows, name="patterns", hidden=True)
        return Finding(
            shares,
            {"positional": self.threshold},
            roles,
            {"position": labels},
            [*missed("positional", shares, self.threshold), table],
        )


def role(function: str, name: str, share: float, threshold: float) -> list[tuple[str, str]]:
    """A role and its label, if the share of maxima is large enough."""
    return [(function, f"{name} ({100 * share:.0f} %)")] if share >= threshold else []


class RareWatcher:
    """How often encoder heads look at the rarest tokens of the sentence.

    Args:
        tally: where it is counted.
        of: what the counts are called.
    """

    def __init__(self, tokens: RareTokens, tally: Tally, of: str = "as it is"):
        self.tokens, self.tally, self.of = tokens, tally, of
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
                self.tally.add(seen.attention, sums.cpu(), cases, f"{self.of}/{name}/{unit}")


class RareRole(HeadMeasure):
    """Maxima on rare tokens, and a control: the same after some tokens have changed places.

    Only sentences count whose rarest token is not among the most frequent (Voita et al., 2019). If
    there are none, or if counts do not tell tokens apart, there is nothing to measure: that is
    said, and refused if the options ask for it.
    """

    pairs_per_chunk = 200
    first_pairs = FIRST_PAIRS

    def prepared(self, models: ChunkReader, first: Chunk) -> dict[str, Any]:
        options = self.options
        file = None if options.counts is None else Path(options.counts_name).name
        known = {"frequencies": file or "dictionary", "seed": options.seed}
        return {**prepared_rare(models, first, options), **known}

    def add(self, tally: Tally, models: ChunkReader, pairs: Pairs, prepared: Known) -> None:
        options = self.options
        tokens = rare_tokens(models.reader, options, prepared)
        if tokens is None:
            return
        encoder = TeacherForcing(models.forcing.model, models.reader.task, attention="encoder")
        watcher, control = RareWatcher(tokens, tally), RareWatcher(tokens, tally, "moved")
        watch(encoder, pairs.values(), [watcher], max_tokens=options.max_tokens)
        moved = moved_pairs(pairs, seed=options.seed)
        watch(encoder, moved, [control], max_tokens=options.max_tokens)

    def finding(self, tally: Tally, prepared: Known) -> Finding:
        shares = tally.means("as it is/rarest/tokens")
        threshold = self.options.rare_threshold
        if not shares:
            top = top_of(self.options)
            reason = f"the rarest token of every sentence is among the {top} most frequent"
            why = prepared.get("unusable") or unusable(self.options, reason)
            warnings.warn(f"no rare-token roles: {why}", stacklevel=2)
            return Finding()
        examined = tally.by_head("as it is/rarest/sentences").values()
        settings = {
            "frequencies": prepared["frequencies"],
            "rare-top": top_of(self.options),
            "rare-sentences": max(int(cases) for _, cases in examined),
            "seed": prepared["seed"],
            "rare": threshold,
        }
        roles = {head: role("rare", "rare", share, threshold) for head, share in shares.items()}
        blocks = [*missed("rare", shares, threshold), *rare_blocks(tally)]
        return Finding(shares, settings, roles, blocks=blocks)


def rare_blocks(tally: Tally) -> list[Block]:
    """Shares of maxima on rare tokens, by chance, and with some tokens moved; and the best head."""
    rows: Rows = []
    parts = []
    shares = tally.means("as it is/rarest/tokens")
    best = max(shares, key=lambda head: shares[head])
    for rank in RANKS:
        of_best = {}
        for unit in UNITS:
            moved = tally.means(f"moved/{rank}/{unit}")
            for head, share in tally.means(f"as it is/{rank}/{unit}").items():
                both = 100 * share, 100 * moved[head]
                rows.append([str(head), rank, unit, *both])
                if head == best:
                    of_best[unit] = both
        (share, of_moved), (chance, _) = of_best["tokens"], of_best["chance"]
        parts.append(
            f"{share:.1f} % ({of_moved:.1f} % with a tenth of the tokens moved, {chance:.1f} % by "
            f"chance) on the {rank}"
        )
    return [
        Note(f"Rare tokens: {best} has most maxima there: {'; '.join(parts)}."),
        Table(["head", "tokens", "unit", "share %", "moved %"], rows, name="rare", hidden=True),
    ]


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


def moved_pairs(pairs: Mapping[int, Pair], *, seed: int = 1) -> list[Pair]:
    """Pairs by line, all moved: the same for a seed and a line, whoever works on it."""
    return [moved(pair, random.Random(f"{seed} {line}")) for line, pair in pairs.items()]
