"""How much context the attention blocks of a model mix in, over a corpus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from fairseq_normalign.attention.block import mixing_ratios
from fairseq_normalign.attention.finite import check_finite
from fairseq_normalign.heads.correlation import spearman
from fairseq_normalign.html_table import Cell, html_table, percent_text
from fairseq_normalign.layers.analyses import ANALYSES
from fairseq_normalign.layers.block_pass import BlockBatch
from fairseq_normalign.layers.categories import OVERALL, Categories
from fairseq_normalign.layers.means import add_means, macro, micro
from fairseq_normalign.runs.joins import Draws, Gathered

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


def add_mixing(sums: Gathered, batch: BlockBatch, categories: Categories) -> None:
    """Adds the mixing ratios of all blocks on a batch."""
    for number, kind in enumerate(batch.kinds):
        layers = []
        for _, block in sorted(batch.layers(kind).items()):
            layers.append(mixing_ratios(block))
            check_finite(layers[-1].transpose(0, 1), batch.places)
        ratios = torch.stack(layers)  # (L, 5, B, T)
        queries = batch.queries(kind)
        name = f"mixing.{kind}"
        add_means(sums, name, ratios, queries.categories, len(categories.names))
        # Of each occurrence of a token, the mean over layers (Kobayashi et al., 2021).
        counted = queries.categories.ge(0) & queries.ranks.isfinite()  # (B, T)
        columns = [queries.ranks, queries.special, *ratios.mean(0)]
        rows = torch.stack([column[counted].float() for column in columns], dim=-1)  # (N, 7)
        draws = Draws(batch.lines, number)(counted.sum(1).tolist())
        sums.sample(f"{name}.ranked", draws, rows.cpu().numpy().__getitem__)


def mixing_of(arrays: Mapping[str, np.ndarray], kind: str, categories: Categories) -> Mixing:
    """What was found of one kind of attention."""
    name = f"mixing.{kind}"
    occurrences = arrays[f"{name}.ranked.sample"][:, 1:]  # rank, special, ratios
    words = occurrences[occurrences[:, 1] == 0]
    return Mixing(
        categories=[*categories.names, OVERALL],
        tokens=arrays[f"{name}.tokens.sum"],
        macro=macro(arrays, name),
        micro=micro(arrays, name),
        low=arrays[f"{name}.low"],
        high=arrays[f"{name}.high"],
        rho=_rhos(occurrences),
        rho_without_specials=_rhos(words),
        ranked=len(occurrences),
        ranked_of=int(arrays[f"{name}.ranked.sum"][0]),
    )


def _rhos(occurrences: np.ndarray) -> list[float | None]:
    """Spearman's ρ of frequency rank and ratio for each analysis; None where all are alike."""
    return [_rho(occurrences[:, 0], ratios) for ratios in occurrences[:, 2:].T]


def _rho(ranks: np.ndarray, ratios: np.ndarray) -> float | None:
    if not len(ratios) or np.ptp(ratios) < ALIKE:
        return None
    return spearman(ranks, ratios)
