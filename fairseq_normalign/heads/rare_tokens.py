"""Heads that look at the rarest token of the sentence, a role of Voita et al. (2019)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.attention_pass import (
    Cells,
    Known,
    Seen,
    Tally,
    choosing,
    maxima,
    summed,
)
from fairseq_normalign.heads.head_scores import ProfileOptions
from fairseq_normalign.heads.profile import Finding, missed, role
from fairseq_normalign.heads.profiling import AttentionScore
from fairseq_normalign.host.pairs import Pair, PairReader, Sentence, Side
from fairseq_normalign.host.raw_corpus import ChunkReader
from fairseq_normalign.names import Head
from fairseq_normalign.results.blocks import Block, Note, Rows, Table
from fairseq_normalign.runs.chunks import Chunk
from fairseq_normalign.text.frequencies import Frequencies

FIRST_PAIRS = 1000  # that tell whether counts are of words or of pieces
RANKS = {"rarest": 1, "two rarest": 2}


class RareTokens(NamedTuple):
    """How frequent source tokens are, and below what a sentence has a token that is rare."""

    side: Side
    frequencies: Mapping[str, float]
    of_words: bool  # and not of pieces
    bar: float | None  # None: all sentences count

    def counts(self, pairs: Sequence[Pair]) -> Tensor:
        """How frequent each source token of some pairs is, (B, S); 0 for marks and padding."""
        counts = []
        for pair in pairs:
            words = torch.tensor(pair.source.words)
            tokens = spelled(pair.source, self.side)[self.of_words]
            of_words = [float(self.frequencies.get(token, 0)) for token in tokens]
            counts.append(
                torch.zeros(len(words)).masked_scatter(words >= 0, torch.tensor(of_words))
            )
        return pad_sequence(counts, batch_first=True)

    def examined(self, counts: Tensor, keys: Tensor) -> Tensor:
        """The sentences whose rarest token is rare enough, (B,), by counts and words (B, S)."""
        return keys.any(1) if self.bar is None else (keys & (counts < self.bar)).any(1)


def prepared_rare(models: ChunkReader, first: Chunk, options: ProfileOptions) -> Known:
    """What ``RareTokens`` must know, as JSON holds it; or why nothing can be said.

    Counts that the options name must be usable.
    """
    source, top = models.reader.source, options.rare_top
    sentences = [
        spelled(pair.source, source) for pair in models.pairs(first)[0] if not pair.skipped
    ]
    counts, name = counts_of(source, options), options.counts_name
    try:
        frequencies = Frequencies(counts, name, sentences)
    except InputError:
        if options.counts is not None:
            raise
        return {"unusable": "the dictionary has no word counts; pass --frequencies FILE"}
    if top >= len(counts):
        reason = f"{name} has {len(counts)} types, all among the {top} most frequent"
        return {"unusable": f"{reason}; {FEWER}"}
    return {"of_words": frequencies.of_words, "bar": frequencies.bar(top) if top else None}


FEWER = "pass a smaller --rare-top, or 0 for all sentences"


def rare_tokens(reader: PairReader, options: ProfileOptions, known: Known) -> RareTokens | None:
    """The criterion that was prepared; None if nothing can be said by it."""
    if "unusable" in known:
        return None
    counts = counts_of(reader.source, options)
    return RareTokens(reader.source, counts, known["of_words"], known["bar"])


def counts_of(side: Side, options: ProfileOptions) -> Mapping[str, float]:
    """How often tokens are in the training data, by default as the dictionary says."""
    return side.vocabulary.counts if options.counts is None else options.counts


def spelled(sentence: Sentence, side: Side) -> tuple[list[str], list[str]]:
    """The pieces of a sentence without marks such as </s>, and the word of each."""
    is_word = torch.tensor(sentence.words) >= 0
    words = [sentence.text[word] for word in sentence.words if word >= 0]
    return side.symbols(sentence.tokens[is_word].tolist()), words


def rarest(frequencies: Tensor, keys: Tensor, *, rank: int = 1) -> Tensor:
    """Tokens of a sentence whose frequency is among its ``rank`` lowest, (B, S).

    Equal ones share a place.

    Args:
        frequencies: of each token in the training data, (B, S).
        keys: tokens that are words, (B, S).
    """
    bar = torch.full_like(frequencies[:, :1], -torch.inf)
    for _ in range(rank):
        higher = keys & (frequencies > bar)
        bar = frequencies.masked_fill(~higher, torch.inf).amin(1, keepdim=True)
    return keys & (frequencies <= bar)


def rare_hits(weights: Tensor, seen: Cells, rare: Tensor, examined: Tensor) -> Tensor:
    """How many words have their maximum on a rare token, by chance, and in all, by head, (H, 3).

    By chance: as if the maximum were any token that is seen.

    Args:
        rare: tokens that count as rare, (B, S).
        examined: sentences to look at, (B,).
    """
    queries = choosing(seen) & examined[:, None]  # (B, T)
    rare_at = rare.unsqueeze(1).expand(weights.shape[:2] + rare.shape[1:])  # (B, H, S)
    hits = rare_at.gather(2, maxima(weights, seen.words))  # (B, H, T)
    shares = (seen.words & rare.unsqueeze(1)).sum(2) / seen.words.sum(2).clamp(min=1)  # (B, T)
    chance = summed(shares.unsqueeze(1).expand_as(hits), queries)[:, :1]
    found, cases = summed(hits, queries).split(1, dim=1)
    return torch.cat([found, chance, cases], dim=1)


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
    explained = sizes.any(1)
    if sizes.shape[1] < 2 or not explained.any():
        return None
    of_rare = sizes[:, rare[words]].mean(1)
    return float((of_rare[explained] / sizes.mean(1)[explained]).mean())


class RareRole(AttentionScore):
    """Maxima of encoder heads on rare tokens.

    Only sentences count whose rarest token is not among the most frequent (Voita et al., 2019). If
    there are none, or if counts do not tell tokens apart, there is nothing to measure, and a
    warning says so.
    """

    first_pairs = FIRST_PAIRS

    def prepared(self, models: ChunkReader, first: Chunk) -> Known:
        options = self.options
        name = "dictionary" if options.counts is None else Path(options.counts_name).name
        return {**prepared_rare(models, first, options), "frequencies": name}

    def add_seen(
        self, tally: Tally, models: ChunkReader, batch: list[Pair], attentions: Sequence[Seen]
    ) -> None:
        """Adds hits on rare tokens, and how many sentences say something."""
        tokens = rare_tokens(models.reader, self.options, tally.known)
        of_encoder = [seen for seen in attentions if seen.attention[0] == "encoder"]
        if tokens is None or not of_encoder:
            return
        cells = of_encoder[0].cells
        keys = cells.words.any(1)  # (B, S)
        counts = tokens.counts(batch).to(keys.device)
        examined = tokens.examined(counts, keys)
        choose = choosing(cells) & examined[:, None]
        tally.join("rare-sentences.sum", [int(choose.any(1).sum())])
        for rank, number in RANKS.items():
            rare = rarest(counts, keys, rank=number)
            for seen in of_encoder:
                hits = rare_hits(seen.recorded.weights, cells, rare, examined)
                tally.add(rank, seen.attention, hits)

    def finding(self, tally: Tally) -> Finding:
        shares = {head: share for head, (share, _) in rare_shares(tally, "rarest").items()}
        threshold, top = self.options.rare_threshold, self.options.rare_top
        if not shares:
            reason = f"the rarest token of every sentence is among the {top} most frequent"
            why = tally.known.get("unusable", f"{reason}; {FEWER}")
            warnings.warn(f"no rare-token roles: {why}", stacklevel=2)
            return Finding()
        settings = {
            "frequencies": tally.known["frequencies"],
            "rare-top": top,
            "rare-sentences": int(tally.arrays["rare-sentences.sum"][0]),
            "rare": threshold,
        }
        roles = {head: role("rare", "rare", share, threshold) for head, share in shares.items()}
        blocks = [*missed("rare", shares, threshold), *rare_blocks(tally)]
        return Finding(shares, settings, roles, blocks)


def rare_shares(tally: Tally, rank: str) -> dict[Head, tuple[float, float]]:
    """Of each head that had a case: the share of its maxima on rare tokens, and that by chance."""
    shares = {}
    for head, (hits, chance, cases) in tally.rows(rank).items():
        if cases:
            shares[head] = float(hits / cases), float(chance / cases)
    return shares


def rare_blocks(tally: Tally) -> list[Block]:
    """Shares of maxima on rare tokens, and by chance; and those of the best head."""
    rows: Rows = []
    best, parts = None, []
    for rank in RANKS:
        shares = rare_shares(tally, rank)
        best = best or max(shares, key=lambda head: shares[head])
        for head, (share, chance) in shares.items():
            rows.append([str(head), rank, 100 * share, 100 * chance])
        share, chance = shares[best]
        parts.append(f"{100 * share:.1f} % ({100 * chance:.1f} % by chance) on the {rank}")
    return [
        Note(f"Rare tokens: {best} has most maxima there: {'; '.join(parts)}."),
        Table(["head", "tokens", "share %", "chance %"], rows, name="rare", hidden=True),
    ]
