"""Heads that look at the rarest token of the sentence, a role of Voita et al. (2019)."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.attention_pass import (
    Cells,
    Known,
    Seen,
    Tally,
    choosing,
    maxima,
    seen_batches,
    summed,
)
from fairseq_normalign.heads.head_scores import ProfileOptions
from fairseq_normalign.heads.profile import Finding, missed, role
from fairseq_normalign.heads.profiling import HeadMeasure, Pairs
from fairseq_normalign.host.pairs import Pair, PairReader, Sentence, Side
from fairseq_normalign.host.raw_corpus import ChunkReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.results.blocks import Block, Note, Rows, Table
from fairseq_normalign.runs.chunks import Chunk
from fairseq_normalign.text.frequencies import Frequencies

FIRST_PAIRS = 1000  # that tell whether counts are of words or of pieces
RANKS = {"rarest": 1, "two rarest": 2}
UNITS = ("tokens", "sentences", "chance")
MOVED = 0.1  # share of the test tokens that change places in our control


class RareTokens(NamedTuple):
    """How frequent source tokens are, and below what a sentence has a token that is rare."""

    side: Side
    frequencies: Mapping[str, float]
    of_words: bool = False  # and not of pieces
    bar: float | None = None  # None: all sentences count

    def counts(self, pairs: Sequence[Pair]) -> Tensor:
        """How frequent each source token of some pairs is, (B, S); 0 for marks and padding."""
        counts = []
        for pair in pairs:
            tokens = spelled(pair.source, self.side)[self.of_words]
            of_words = iter([self.frequencies.get(token, 0.0) for token in tokens])
            of_tokens = [next(of_words) if word >= 0 else 0.0 for word in pair.source.words]
            counts.append(torch.tensor(of_tokens))
        return pad_sequence(counts, batch_first=True)

    def examined(self, counts: Tensor, keys: Tensor) -> Tensor:
        """The sentences whose rarest token is rare enough, (B,), by counts and words (B, S)."""
        return keys.any(1) if self.bar is None else (keys & (counts < self.bar)).any(1)


def prepared_rare(models: ChunkReader, first: Chunk, options: ProfileOptions) -> Known:
    """What ``RareTokens`` must know, as JSON holds it; or why nothing can be said.

    Counts that the options name must be usable.
    """
    pairs = [pair for pair in models.pairs(first)[0] if not pair.skipped]
    source = models.reader.source
    sentences = [spelled(pair.source, source) for pair in pairs]
    counts, name = counts_of(source, options)
    try:
        frequencies = Frequencies(counts, name, sentences)
    except InputError:
        if options.counts is not None:
            raise
        return {"unusable": "the dictionary has no word counts; pass --frequencies FILE"}
    top = options.rare_top
    if top >= len(counts):
        reason = f"{name} has {len(counts)} types, all among the {top} most frequent"
        return {"unusable": f"{reason}; {FEWER}"}
    return {"of_words": frequencies.of_words, "bar": frequencies.bar(top) if top else None}


FEWER = "pass a smaller --rare-top, or 0 for all sentences"


def rare_tokens(reader: PairReader, options: ProfileOptions, known: Known) -> RareTokens | None:
    """The criterion that was prepared; None if nothing can be said by it."""
    if "unusable" in known:
        return None
    counts, _ = counts_of(reader.source, options)
    return RareTokens(reader.source, counts, known["of_words"], known["bar"])


def counts_of(side: Side, options: ProfileOptions) -> tuple[Mapping[str, float], str]:
    """How often tokens are in the training data, by default as the dictionary says; its name."""
    if options.counts is None:
        return side.vocabulary.counts, "the dictionary"
    return options.counts, options.counts_name


def spelled(sentence: Sentence, side: Side) -> tuple[list[str], list[str]]:
    """The pieces of a sentence without marks such as </s>, and the word of each."""
    tokens = compress(sentence.tokens.tolist(), (word >= 0 for word in sentence.words))
    words = [sentence.text[word] for word in sentence.words if word >= 0]
    return side.symbols(list(tokens)), words


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


def rare_hits(weights: Tensor, seen: Cells, rare: Tensor, examined: Tensor) -> dict[str, Tensor]:
    """How often the maximum is on a rare token, and of how many cases, by head, (H, 2).

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
    chance = (keys & rare.unsqueeze(1)).sum(2) / keys.sum(2).clamp(min=1)  # (B, T)
    return {
        "tokens": summed(hits, queries),
        "sentences": summed(favourites, queries.any(1, keepdim=True)),
        "chance": summed(chance.unsqueeze(1).expand_as(hits), queries),
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
    explained = sizes.any(1)
    if sizes.shape[1] < 2 or not explained.any():
        return None
    of_rare = sizes[:, rare[words]].mean(1)
    return float((of_rare[explained] / sizes.mean(1)[explained]).mean())


class RareRole(HeadMeasure):
    """Maxima on rare tokens, and a control: the same after some tokens have changed places.

    Only sentences count whose rarest token is not among the most frequent (Voita et al., 2019). If
    there are none, or if counts do not tell tokens apart, there is nothing to measure, and a
    warning says so.
    """

    pairs_per_chunk = 200
    first_pairs = FIRST_PAIRS

    def prepared(self, models: ChunkReader, first: Chunk) -> Known:
        options = self.options
        file = None if options.counts is None else Path(options.counts_name).name
        known = {"frequencies": file or "dictionary", "seed": options.seed}
        return {**prepared_rare(models, first, options), **known}

    def add(self, tally: Tally, models: ChunkReader, pairs: Pairs) -> None:
        tokens = rare_tokens(models.reader, self.options, tally.known)
        if tokens is None:
            return
        encoder = TeacherForcing(models.forcing.model, models.reader.task, attention="encoder")
        texts = {"as it is": pairs.values(), "moved": moved_pairs(pairs, seed=self.options.seed)}
        for name, of_text in texts.items():
            max_tokens = self.options.max_tokens
            for batch in seen_batches(encoder, of_text, max_tokens=max_tokens, values=False):
                for hits, seen, rows in rare_rows(batch, tokens):
                    tally.add(f"{name}/{hits}", seen.attention, rows)

    def finding(self, tally: Tally) -> Finding:
        shares = tally.means("as it is/rarest/tokens")
        threshold, top = self.options.rare_threshold, self.options.rare_top
        if not shares:
            reason = f"the rarest token of every sentence is among the {top} most frequent"
            why = tally.known.get("unusable", f"{reason}; {FEWER}")
            warnings.warn(f"no rare-token roles: {why}", stacklevel=2)
            return Finding()
        examined = tally.rows("as it is/rarest/sentences").values()
        settings = {
            "frequencies": tally.known["frequencies"],
            "rare-top": top,
            "rare-sentences": max(int(cases) for _, cases in examined),
            "seed": tally.known["seed"],
            "rare": threshold,
        }
        roles = {head: role("rare", "rare", share, threshold) for head, share in shares.items()}
        blocks = [*missed("rare", shares, threshold), *rare_blocks(tally)]
        return Finding(shares, settings, roles, blocks=blocks)


def rare_rows(batch: Sequence[Seen], tokens: RareTokens) -> Iterator[tuple[str, Seen, Tensor]]:
    """Hits on rare tokens in each encoder attention, by rank and unit."""
    keys = batch[0].cells.words.any(1)  # (B, S)
    counts = tokens.counts(batch[0].pairs).to(keys.device)
    examined = tokens.examined(counts, keys)
    for rank, seen in product(RANKS, batch):
        rare = rarest(counts, keys, rank=RANKS[rank])
        by_unit = rare_hits(seen.recorded.weights, seen.cells, rare, examined)
        for unit, rows in by_unit.items():
            yield f"{rank}/{unit}", seen, rows


def rare_blocks(tally: Tally) -> list[Block]:
    """Shares of maxima on rare tokens, by chance, and with some tokens moved; and the best head."""
    rows: Rows = []
    shares: dict[str, list[float]] = {}
    first = tally.means("as it is/rarest/tokens")
    best = max(first, key=lambda head: first[head])
    for rank, unit in product(RANKS, UNITS):
        moved = tally.means(f"moved/{rank}/{unit}")
        for head, share in tally.means(f"as it is/{rank}/{unit}").items():
            rows.append([str(head), rank, unit, 100 * share, 100 * moved[head]])
            if head == best:
                shares[f"{rank}/{unit}"] = [100 * share, 100 * moved[head]]
    parts = []
    for rank in RANKS:
        (share, of_moved), (chance, _) = shares[f"{rank}/tokens"], shares[f"{rank}/chance"]
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
    is not Sennrich's control, which is about training: see ``plugin.task.SourceNoise``.
    """
    places = [place for place, word in enumerate(pair.source.words) if word >= 0]
    wanted = max(2, round(share * len(places)))
    chosen = generator.sample(places, min(len(places), wanted))
    order = np.arange(len(pair.source.words))
    order[chosen] = np.roll(chosen, -1)
    words = [pair.source.words[place] for place in order]
    return pair._replace(source=Sentence(pair.source.tokens[order], words, pair.source.text))


def moved_pairs(pairs: Mapping[int, Pair], *, seed: int = 1) -> list[Pair]:
    """Pairs by line, all moved: the same for a seed and a line, whoever works on it."""
    return [moved(pair, random.Random(f"{seed} {line}")) for line, pair in pairs.items()]
