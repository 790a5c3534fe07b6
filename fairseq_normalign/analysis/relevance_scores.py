"""Relevance of heads, and of source and prefix, over a corpus."""

from __future__ import annotations

from functools import partial

from tqdm import tqdm

from fairseq_normalign.analysis.pair_relevance import SentenceRelevance, relevances
from fairseq_normalign.analysis.profile import Survey
from fairseq_normalign.heads.lrp_rules import (
    Contributions,
    by_position,
    contributions,
    rule_set,
)
from fairseq_normalign.heads.profile import Finding
from fairseq_normalign.heads.tally import Tally
from fairseq_normalign.host.batches import numbered_batches


def relevance(survey: Survey) -> Finding:
    """The share of a head in its layer's relevance, mean over predictions (Voita et al., 2019).

    Pooled, all predictions of a pair are explained together, and the mean is over pairs. Details
    are how far totals are from 1, and what source and prefix contribute (Voita et al., 2021).
    """
    summary = RelevanceSummary()
    options = survey.options
    explain = partial(
        relevances,
        survey.forcing,
        rules=options.rules,
        pooled=options.pooled,
        max_tokens=options.max_tokens,
    )
    with tqdm(desc="relevance", total=len(survey.pairs), unit=" pairs", disable=None) as progress:
        for numbered in numbered_batches(survey.pairs, max_tokens=options.max_tokens):
            batch = [pair for _, pair in numbered]
            for of_pair in explain(batch):
                summary.add(of_pair)
                progress.update()
    mode = "pooled" if options.pooled else "exact"
    settings = {"relevance": f"{rule_set(options.rules).spec}-{mode}"}
    return summary.finding()._replace(settings=settings)


class RelevanceSummary:
    """What the relevance of many sentences has in common."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.deviation: dict[str, float] = {}  # the farthest that a total was from 1, by layer
        self.contributions: list[Contributions] = []

    def add(self, of_pair: SentenceRelevance) -> None:
        for attention, shares in of_pair.heads.items():  # (P, H)
            self.tally.add(attention, shares.sum(0), len(shares))
        for cut, distance in of_pair.deviation.items():
            self.deviation[cut] = max(distance, self.deviation.get(cut, 0.0))
        self.contributions.append(contributions(of_pair.source, of_pair.prefix))

    def finding(self) -> Finding:
        by_place = by_position(self.contributions)
        details = {"deviation": self.deviation, "contributions": by_place}
        return Finding(self.tally.means(), details)
