"""How much context the attention blocks of a model mix in, over a corpus."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairseq_normalign.attention.block import mixing_ratios
from fairseq_normalign.attention.finite import check_finite
from fairseq_normalign.heads.correlation import spearman
from fairseq_normalign.html_table import Cell, html_table, percent_text
from fairseq_normalign.layers.analyses import ANALYSES
from fairseq_normalign.layers.block_pass import BlockBatch
from fairseq_normalign.layers.categories import OVERALL, Categories
from fairseq_normalign.layers.mixing_tally import MixingTally

ALIKE = 1e-5  # ratios that differ by rounding alone have no order


@dataclass(frozen=True)
class Mixing:
    """Mixing ratios of one kind of attention, by Kobayashi et al. (2021); all from 0 to 1.

    Axes: L layers; the five analyses of ``attention.block.ANALYSES``; K+1 categories, the last one
    all tokens.
    """

    categories: list[str]  # K+1
    tokens: np.ndarray  # how many, (K+1,)
    macro: np.ndarray  # mean over a sentence, then over sentences, (L, 5, K+1); nan: no tokens
    micro: np.ndarray  # mean over all tokens, (L, 5, K+1)
    low: np.ndarray  # of any token and layer, (5,)
    high: np.ndarray
    rho: list[float | None]  # Spearman of frequency rank and ratio, for each analysis
    rho_without_specials: list[float | None]
    ranked: int  # occurrences that ρ is of
    ranked_of: int  # of so many; if these are more, at random

    def _repr_html_(self) -> str:
        """What a notebook shows: a row for each layer, a column for each analysis."""
        rows: list[list[str | Cell]] = []
        for layer, of_analyses in enumerate(self.micro[:, :, -1].tolist(), 1):
            rows.append([str(layer), *(Cell(percent_text(ratio), ratio) for ratio in of_analyses)])
        rows.append(["mean", *map(percent_text, self.mean.tolist())])
        caption = f"mixing ratio in %, {int(self.tokens[-1]):,} tokens"
        return html_table(["layer", *ANALYSES], rows, caption=caption)

    @property
    def mean(self) -> np.ndarray:
        """Over all layers and tokens, (5,)."""
        return self.micro[:, :, -1].mean(0)


class MixingWatcher:
    """Gathers the mixing ratios of all blocks."""

    KEPT = ("tallies",)

    def __init__(self, categories: Categories):
        self.categories = categories
        self.tallies: dict[str, MixingTally] = {}

    def __call__(self, batch: BlockBatch) -> None:
        for kind in dict.fromkeys(kind for kind, _ in batch.blocks):
            ratios = {}
            for layer, block in batch.layers(kind).items():
                ratios[layer] = mixing_ratios(block)
                check_finite(ratios[layer].transpose(0, 1), batch.places)
            tally = self.tallies.setdefault(kind, MixingTally(len(self.categories.names)))
            queries = batch.queries(kind)
            tally.add(ratios, queries.categories, queries.ranks, queries.special)

    def result(self) -> dict[str, Mixing]:
        """What was found, by kind of attention."""
        return {kind: self._result(tally) for kind, tally in self.tallies.items()}

    def _result(self, tally: MixingTally) -> Mixing:
        low, high = tally.extremes()
        ranks, _ = tally.occurrences(specials=True)
        return Mixing(
            categories=[*self.categories.names, OVERALL],
            tokens=tally.tokens(),
            macro=tally.macro(),
            micro=tally.micro(),
            low=low,
            high=high,
            rho=_rhos(tally, specials=True),
            rho_without_specials=_rhos(tally, specials=False),
            ranked=len(ranks),
            ranked_of=tally.sample.seen,
        )


def _rhos(tally: MixingTally, *, specials: bool) -> list[float | None]:
    """Spearman's ρ of frequency rank and ratio for each analysis; None where all are alike."""
    ranks, ratios = tally.occurrences(specials=specials)
    return [_rho(ranks, of_analysis) for of_analysis in ratios]


def _rho(ranks: np.ndarray, ratios: np.ndarray) -> float | None:
    if not len(ratios) or np.ptp(ratios) < ALIKE:
        return None
    return spearman(ranks, ratios)
