"""Relevance of heads, and of source and prefix, over a corpus."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fairseq_normalign.attention.lrp_rules import Contributions, contributions, rule_set
from fairseq_normalign.attention.pair_relevance import SentenceRelevance, relevances
from fairseq_normalign.heads.attention_pass import Tally
from fairseq_normalign.heads.profile import Finding
from fairseq_normalign.heads.profiling import HeadMeasure, Known
from fairseq_normalign.heads.rare_tokens import (
    FIRST_PAIRS,
    RareTokens,
    prepared_rare,
    rare_influence,
    rare_tokens,
    rarest,
)
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.raw_corpus import ChunkReader
from fairseq_normalign.results.blocks import Note, Table
from fairseq_normalign.runs.chunks import Chunk

POSITIONS = 10  # of the target, whose source share is shown


class Relevance(HeadMeasure):
    """The share of a head in its layer's relevance, mean over predictions (Voita et al., 2019).

    Pooled, all predictions of a pair are explained together, and the mean is over pairs. Details
    are how far totals are from 1, what source and prefix contribute (Voita et al., 2021), and what
    the rarest source tokens do, if there are counts that tell.
    """

    first_pairs = FIRST_PAIRS

    def prepared(self, models: ChunkReader, first: Chunk) -> Known:
        return prepared_rare(models, first, self.options)

    def add_batch(self, tally: Tally, models: ChunkReader, batch: list[Pair]) -> None:
        options = self.options
        how: dict[str, Any] = {"rules": options.rules, "pooled": options.pooled}
        tokens = rare_tokens(models.reader, options, tally.known)
        explained = relevances(models.forcing, batch, max_tokens=options.max_tokens, **how)
        for pair, of_pair in zip(batch, explained, strict=True):
            for attention, shares in of_pair.heads.items():  # (P, H)
                tally.add_cases(self.score, attention, shares.T)
            for cut, distance in of_pair.deviation.items():
                tally.join(f"{cut}.high", distance)
            add_contributions(tally, contributions(of_pair.source, of_pair.prefix))
            influence = None if tokens is None else _influence(tokens, pair, of_pair)
            if influence is not None:
                tally.join("influence.sum", [influence, 1])

    def finding(self, tally: Tally) -> Finding:
        """How far totals are from 1, and where relevance ends: in the source or in the prefix."""
        options = self.options
        distances = [value for name, value in tally.arrays.items() if name.endswith(".high")]
        contributed = by_position(tally)
        shown = [f"{share:.2f}" for share in contributed.source]
        if len(shown) > POSITIONS:
            shown[POSITIONS:] = "…"
        where = "all target positions together" if options.pooled else "target positions 1, 2, …"
        source, prefix = contributed.source_entropy.mean(), contributed.prefix_entropy.mean()
        rows = [[place, *own] for place, own in enumerate(np.transpose(contributed).tolist(), 1)]
        notes = [
            Note(f"Relevance of each layer adds up to 1 within {max(distances, default=0):.0e}."),
            Note(f"Share of the source in the relevance of {where}: {' '.join(shown)}."),
            Note(
                f"Entropy of the relevance of source tokens {source:.2f}, of prefix tokens "
                f"{prefix:.2f} nats."
            ),
        ]
        columns = ["position", *Contributions._fields]
        tables = [Table(columns, rows, name="relevance", hidden=True)]
        if "influence.sum" in tally.arrays:
            influences, sentences = tally.arrays["influence.sum"].tolist()
            mean = influences / sentences
            told = (
                f"Relevance of the rarest source token: {mean:.2f} times that of all, mean over "
                f"{sentences:.0f} sentences."
            )
            notes.append(Note(told))
            row = [mean, int(sentences)]
            tables.append(Table(["influence", "sentences"], [row], name="rarest", hidden=True))
        rules = f"{rule_set(options.rules).spec}-{options.relevance_mode}"
        return Finding(tally.means(self.score), {"relevance": rules}, blocks=[*notes, *tables])


def add_contributions(tally: Tally, of_pair: Contributions) -> None:
    """Adds those of one pair to the sums at each target position; undefined ones are left out."""
    by_place = np.array(of_pair)  # (3, P), nan: undefined
    defined = ~np.isnan(by_place)
    tally.join("contributions.sum", [np.where(defined, by_place, 0), defined])


def by_position(tally: Tally) -> Contributions:
    """The mean over sentences at each target position, (longest P,) each."""
    totals, defined = tally.arrays.get("contributions.sum", np.zeros((2, 3, 0)))
    return Contributions(*(totals / np.maximum(defined, 1)))


def _influence(tokens: RareTokens, pair: Pair, of_pair: SentenceRelevance) -> float | None:
    """That of the rarest tokens, if the sentence has one that is rare enough."""
    counts = tokens.counts([pair])  # (1, S)
    words = torch.tensor([pair.source.words]) >= 0
    if not tokens.examined(counts, words).any():
        return None
    rare = rarest(counts, words)
    return rare_influence(of_pair.source, words[0].numpy(), rare[0].numpy())
