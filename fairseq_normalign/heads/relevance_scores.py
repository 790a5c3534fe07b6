"""Relevance of heads, and of source and prefix, over a corpus."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from fairseq_normalign.attention.lrp_rules import (
    Contributions,
    by_position,
    contributions,
    rule_set,
)
from fairseq_normalign.attention.pair_relevance import SentenceRelevance, groups, relevances
from fairseq_normalign.heads.attention_pass import Tally
from fairseq_normalign.heads.profile import Finding, RareInfluence
from fairseq_normalign.heads.profiling import Survey
from fairseq_normalign.heads.rare_tokens import RareTokens, rare_tokens
from fairseq_normalign.heads.roles import rare_influence, rarest
from fairseq_normalign.host.batches import numbered_batches, text_of
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.progress import bar


def relevance(survey: Survey) -> Finding:
    """The share of a head in its layer's relevance, mean over predictions (Voita et al., 2019).

    Pooled, all predictions of a pair are explained together, and the mean is over pairs. Details
    are how far totals are from 1, what source and prefix contribute (Voita et al., 2021), and what
    the rarest source tokens do, if there are counts that tell.
    """
    summary = RelevanceSummary(rare_tokens(survey))
    options = survey.options
    explain = partial(
        relevances,
        survey.forcing,
        rules=options.rules,
        pooled=options.pooled,
        max_tokens=options.max_tokens,
    )
    this_pass = survey.sums.begin("relevance", [summary])
    with bar("relevance", total=this_pass.left(len(survey.pairs))) as shown:
        for group in this_pass.over(_groups(survey), text=text_of, size=len):
            for pair, of_pair in zip(group, explain(group), strict=True):
                summary.add(pair, of_pair)
                shown.update()
    settings = {"relevance": f"{rule_set(options.rules).spec}-{options.relevance_mode}"}
    return summary.finding()._replace(settings=settings)


def _groups(survey: Survey) -> Iterator[list[Pair]]:
    """The pairs, as they are explained together: few, so that what is done is kept often."""
    options = survey.options
    for numbered in numbered_batches(survey.pairs, max_tokens=options.max_tokens):
        batch = [pair for _, pair in numbered]
        yield from groups(batch, options.pooled, options.max_tokens)


class RelevanceSummary:
    """What the relevance of many sentences has in common."""

    KEPT = ("tally", "deviation", "contributions", "influences")

    def __init__(self, tokens: RareTokens | str) -> None:
        self.tokens = None if isinstance(tokens, str) else tokens
        self.tally = Tally()
        self.deviation: dict[str, float] = {}  # the farthest that a total was from 1, by layer
        self.contributions: list[Contributions] = []
        self.influences: list[float] = []  # of the rarest tokens of each sentence that has one

    def add(self, pair: Pair, of_pair: SentenceRelevance) -> None:
        for attention, shares in of_pair.heads.items():  # (P, H)
            self.tally.add(attention, shares.sum(0), len(shares))
        for cut, distance in of_pair.deviation.items():
            self.deviation[cut] = max(distance, self.deviation.get(cut, 0.0))
        self.contributions.append(contributions(of_pair.source, of_pair.prefix))
        influence = self._influence(pair, of_pair)
        if influence is not None:
            self.influences.append(influence)

    def _influence(self, pair: Pair, of_pair: SentenceRelevance) -> float | None:
        """That of the rarest tokens, if the sentence has one that is rare enough."""
        if self.tokens is None:
            return None
        counts = self.tokens.counts([pair])  # (1, S)
        words = torch.tensor([pair.source.words]) >= 0
        if not self.tokens.examined(counts, words).any():
            return None
        rare = rarest(counts, words)
        return rare_influence(of_pair.source, words[0].numpy(), rare[0].numpy())

    def finding(self) -> Finding:
        by_place = by_position(self.contributions)
        facts: dict[str, Any] = {"deviation": self.deviation, "contributions": by_place}
        if self.influences:
            mean = float(np.mean(self.influences))
            facts["rare_influence"] = RareInfluence(mean, len(self.influences))
        return Finding(self.tally.means(), facts=facts)
