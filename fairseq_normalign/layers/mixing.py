"""How much context the attention blocks of a model mix in, over a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fairseq_normalign.attention.block import mixing_ratios
from fairseq_normalign.attention.recorder import check_finite
from fairseq_normalign.heads.correlation import spearman
from fairseq_normalign.layers.block_pass import (
    BlockBatch,
    add_means,
    add_occurrences,
    divided,
)
from fairseq_normalign.layers.categories import OVERALL, Categories
from fairseq_normalign.names import ANALYSES, KINDS
from fairseq_normalign.results.blocks import (
    Block,
    Grid,
    Note,
    Row,
    Rows,
    Table,
    chosen_from,
    on_one_scale,
)
from fairseq_normalign.results.result import Result
from fairseq_normalign.runs.joins import Draws, Gathered, arrays_of

ALIKE = 1e-5  # ratios that differ by rounding alone have no order


@dataclass(frozen=True)
class Mixing:
    """Mixing ratios of one kind of attention, by Kobayashi et al. (2021); all from 0 to 1.

    Axes: L layers; the five analyses of ``names.ANALYSES``; K+1 categories, the last one
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

    @property
    def mean(self) -> np.ndarray:
        """Over all layers and tokens, (5,)."""
        return self.micro[:, :, -1].mean(0)


def add_mixing(sums: Gathered, batch: BlockBatch, categories: int) -> None:
    """Adds the mixing ratios of some blocks on a batch."""
    layers = []
    for block in batch.blocks.values():
        layers.append(mixing_ratios(block))
        check_finite(layers[-1].transpose(0, 1), batch.places)
    ratios = torch.stack(layers)  # (L, 5, B, T)
    queries, name = batch.queries, f"mixing.{batch.kind}"
    add_means(sums, name, ratios, queries.categories, categories)
    # Of each occurrence of a token, the mean over layers (Kobayashi et al., 2021).
    columns = [queries.ranks, queries.special, *ratios.mean(0)]
    draws = Draws(batch.lines, batch.number)
    add_occurrences(sums, f"{name}.ranked", columns, queries.ranks.isfinite(), draws)


def mixing_of(arrays: Mapping[str, np.ndarray], kind: str, categories: Categories) -> Mixing:
    """What was found of one kind of attention."""
    own = arrays_of(arrays, f"mixing.{kind}.")
    occurrences = own["ranked.sample"][:, 1:]  # rank, special, ratios
    return Mixing(
        categories=[*categories.names, OVERALL],
        tokens=own["tokens.sum"],
        macro=divided(own["macro.sum"], own["sentences.sum"]),
        micro=divided(own["micro.sum"], own["tokens.sum"]),
        low=own["low"],
        high=own["high"],
        rho=_rhos(occurrences),
        rho_without_specials=_rhos(occurrences[occurrences[:, 1] == 0]),
        ranked=len(occurrences),
        ranked_of=int(own["ranked.sum"][0]),
    )


def _rhos(occurrences: np.ndarray) -> list[float | None]:
    """Spearman's ρ of frequency rank and ratio for each analysis; None where all are alike."""
    rhos: list[float | None] = []
    for ratios in occurrences[:, 2:].T:
        differ = len(ratios) and np.ptp(ratios) >= ALIKE
        rhos.append(spearman(occurrences[:, 0], ratios) if differ else None)
    return rhos


AVERAGES = {
    "macro": "mean of each sentence, then of all sentences that have such tokens",
    "micro": "mean of all tokens",
}
MEANINGS = {
    "ATTN-W": "attention alone, by its weights α",
    "ATTN-N": "attention alone, by the norms of the vectors it adds, ‖αf(x)‖",
    "ATTNRES-W": "attention and residual connection, by weights: half of each",
    "ATTNRES-N": "attention and residual connection, by norms",
    "ATTNRESLN-N": "attention, residual connection and layer norm, by norms",
}


@dataclass(frozen=True)
class MixingResult(Result):
    """The mixing ratios of a model, by kind of attention.

    Args:
        analyses: those that are shown by layer and category; JSON has all.
        average: what is shown of them, one of AVERAGES.
    """

    by_kind: Mapping[str, Mixing]
    signature: Mapping[str, object]
    analyses: Sequence[str] = ("ATTNRESLN-N",)
    average: str = "macro"

    kind = "mixing"
    title = "Mixing of context"
    about = (
        "The mixing ratio is how much of a new state comes from other tokens, not from the token "
        "itself."
    )

    @property
    def findings(self) -> list[str]:
        found = []
        for kind, mixing in self.by_kind.items():
            ratio = 100 * float(mixing.mean[ANALYSES.index("ATTNRESLN-N")])
            found.append(f"{KINDS[kind].title} mixes in {ratio:.0f} % of context (ATTNRESLN-N).")
        return found

    def blocks(self) -> list[Block]:
        by_analysis = {}
        for analysis in ANALYSES:
            by_average = {}
            for average, meaning in AVERAGES.items():
                maps = [_map(kind, self.by_kind[kind], analysis, average) for kind in self.by_kind]
                by_average[meaning] = [Row(on_one_scale(maps))]
            note = Note(f"{analysis}: {MEANINGS[analysis]}.")
            chosen = chosen_from("average", by_average, [AVERAGES[self.average]])
            by_analysis[analysis] = [note, *chosen]
        tokens: Rows = []
        notes = []
        for kind, mixing in self.by_kind.items():
            counts = zip(mixing.categories, mixing.tokens.tolist(), strict=True)
            tokens += [[kind, *count] for count in counts]
            notes.append(_counts(KINDS[kind].title, mixing))
        columns = ["attention", "category", "tokens"]
        return [
            self._summary(),
            *chosen_from("analysis", by_analysis, self.analyses),
            Table(columns, tokens, "Tokens", name="tokens", hidden=True),
            *notes,
        ]

    def _summary(self) -> Table:
        rows: Rows = []
        for kind, mixing in self.by_kind.items():
            shares = 100 * np.stack([mixing.mean, mixing.low, mixing.high], axis=1)  # (5, 3)
            rhos = zip(mixing.rho, mixing.rho_without_specials, strict=True)
            for name, of_analysis, rho in zip(ANALYSES, shares.tolist(), rhos, strict=True):
                rows.append([KINDS[kind].title, name, *of_analysis, *rho])
        columns = ["attention", "analysis", "mean", "min", "max"]
        columns += ["ρ with rank", "ρ without special tokens"]
        title = "Mixing ratio in % over all layers, and Spearman's ρ with frequency rank"
        return Table(columns, rows, title, [0, 0, 1, 1, 1, 2, 2], name="analyses")


def _map(kind: str, mixing: Mixing, analysis: str, average: str) -> Grid:
    """A row for each layer, a column for each category that has tokens."""
    means = mixing.macro if average == "macro" else mixing.micro
    kept = np.flatnonzero(mixing.tokens)
    of_analysis = 100 * means[:, ANALYSES.index(analysis)][:, kept]  # (L, K+1)
    return Grid(
        f"{KINDS[kind].title}: {analysis}, mixing ratio",
        "layer",
        "category",
        [str(layer) for layer in range(1, len(means) + 1)],
        [mixing.categories[place] for place in kept],
        of_analysis.tolist(),
        unit="%",
        decimals=1,
        notes=[[f"{count:,} tokens" for count in mixing.tokens[kept]]] * len(means),
        name=f"{kind}.{analysis}.{average}",
    )


def _counts(title: str, mixing: Mixing) -> Note:
    """How many tokens there are, and what ρ is of."""
    *listed, (_, total) = zip(mixing.categories, mixing.tokens.tolist(), strict=True)
    tokens = ", ".join(f"{count:,} {name}" for name, count in listed if count)
    of_all = "" if mixing.ranked == mixing.ranked_of else f" of {mixing.ranked_of:,}, at random"
    return Note(
        f"{title}: {total:,} tokens: {tokens}; ρ is over {mixing.ranked:,} ranked ones{of_all}."
    )
