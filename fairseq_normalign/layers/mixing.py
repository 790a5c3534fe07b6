"""How much context the attention blocks and layers of a model mix in, over a corpus."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from fairseq_normalign.attention.block import Block as AttentionBlock
from fairseq_normalign.attention.block import mixing_ratios, share
from fairseq_normalign.attention.layer import Layer, layers_with
from fairseq_normalign.attention.recorder import check_finite
from fairseq_normalign.heads.correlation import spearman
from fairseq_normalign.layers.categories import OVERALL, Categories
from fairseq_normalign.names import ANALYSES, KINDS, LAYER_ANALYSES
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
LAYERS = {"encoder-layer": "encoder layer", "decoder-layer": "decoder layer"}  # names, titles
PARTS = ("itself", "prefix", "source")  # of a translation decoder's state
TITLES = {**{name: kind.title for name, kind in KINDS.items()}, **LAYERS}


class TokenBatch(NamedTuple):
    """The tokens of one side of a batch, padded on the right."""

    categories: Tensor  # from 0; -1 for padding, (B, T)
    ranks: Tensor  # 1 is the most frequent; nan for padding and what is left out, (B, T)
    special: Tensor  # belongs to no word, (B, T)


class BlockBatch(NamedTuple):
    """The blocks of one kind of attention on one batch, and the tokens that they see."""

    kind: str
    number: int  # of the kind among those that are looked at, from 0
    blocks: Mapping[int, AttentionBlock]  # by layer, from 0
    queries: TokenBatch
    keys: TokenBatch
    places: Sequence[str]  # what errors call each sentence
    lines: Sequence[int]  # in the corpus, from 0


@dataclass(frozen=True)
class Mixing:
    """Mixing ratios of one kind of attention or of layers; all from 0 to 1.

    Axes: L layers; A analyses, five of an attention (Kobayashi et al., 2021) and four of whole
    layers; K+1 categories, the last one all tokens.
    """

    analyses: Sequence[str]  # A
    categories: list[str]  # K+1
    tokens: np.ndarray  # how many, (K+1,)
    macro: np.ndarray  # mean over a sentence, then over sentences, (L, A, K+1); nan: no tokens
    micro: np.ndarray  # mean over all tokens, (L, A, K+1)
    low: np.ndarray  # of any token and layer, (A,)
    high: np.ndarray
    rho: list[float | None]  # Spearman of frequency rank and ratio, for each analysis
    rho_without_specials: list[float | None]
    ranked: int  # occurrences that ρ is of
    ranked_of: int  # of so many; if these are more, at random
    # Of whole layers: Spearman of the norms of all pairs before and behind the net, the mean over
    # sentences, (L, A - 1); of decoders that read a source, lengths of PARTS, (L, A, 3).
    kept: np.ndarray | Sequence = ()
    shares: np.ndarray | Sequence = ()

    @property
    def mean(self) -> np.ndarray:
        """Over all layers and tokens, (A,)."""
        return self.micro[:, :, -1].mean(0)


def add_means(sums: Gathered, name: str, values: Tensor, categories: Tensor, number: int) -> None:
    """Adds a batch to what the means of some quantities need, by category and overall.

    Args:
        values: of layers or heads, quantities and tokens, (L, Q, B, T).
        categories: of each token, from 0; -1 for padding, (B, T).
        number: of categories, K; all tokens together are one more.
    """
    of_category = categories.unsqueeze(-1) == torch.arange(number, device=categories.device)
    is_token = categories >= 0
    members = torch.cat([of_category, is_token.unsqueeze(-1)], dim=-1).double()  # (B, T, K+1)
    counts = members.sum(1)  # (B, K+1)
    by_sentence = torch.einsum("lqbt,btk->lqbk", values.double(), members)
    of_tokens = values.transpose(0, 1)[:, :, is_token].flatten(1)  # (Q, L·N)
    added = {
        "micro.sum": by_sentence.sum(2),
        "macro.sum": (by_sentence / counts.clamp(min=1)).sum(2),
        "tokens.sum": counts.sum(0).long(),
        "sentences.sum": counts.gt(0).sum(0),
        "low": of_tokens.amin(1),
        "high": of_tokens.amax(1),
    }
    for what, of_batch in added.items():
        sums.add(f"{name}.{what}", of_batch.cpu().numpy())


def add_occurrences(
    sums: Gathered, name: str, columns: Sequence[Tensor], counted: Tensor, draws: Draws
) -> None:
    """Adds those tokens that count, (B, T), to a sample: what is known of each is a row."""
    rows = torch.stack([column[counted].float() for column in columns], dim=-1).cpu().numpy()
    sums.sample(name, draws(counted.sum(1).tolist()), rows.__getitem__)


def divided(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Means; nan where there is nothing."""
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def numbers(values: Iterable[float]) -> list[float | None]:
    """As tables and maps take them, which have no nan."""
    return [None if math.isnan(value) else float(value) for value in values]


def add_mixing(sums: Gathered, batch: BlockBatch, categories: int) -> None:
    """Adds the mixing ratios of some blocks on a batch."""
    layers = []
    for of_layer in batch.blocks.values():
        layers.append(mixing_ratios(of_layer))
        check_finite(layers[-1].transpose(0, 1), batch.places)
    _add_ratios(sums, f"mixing.{batch.kind}", torch.stack(layers), batch, categories)


def _add_ratios(
    sums: Gathered, name: str, ratios: Tensor, batch: BlockBatch, categories: int
) -> None:
    """Adds ratios of layers, analyses and queries, (L, A, B, T)."""
    queries = batch.queries
    add_means(sums, name, ratios, queries.categories, categories)
    # Of each occurrence of a token, the mean over layers (Kobayashi et al., 2021).
    columns = [queries.ranks, queries.special, *ratios.mean(0)]
    draws = Draws(batch.lines, batch.number)
    add_occurrences(sums, f"{name}.ranked", columns, queries.ranks.isfinite(), draws)


def add_layers(
    sums: Gathered, batches: Sequence[BlockBatch], model: nn.Module, categories: int
) -> None:
    """Adds what whole layers mix in, from the blocks of all their attentions on a batch."""
    blocks = {}
    for batch in batches:
        for layer, of_layer in batch.blocks.items():
            blocks[batch.kind, layer] = of_layer
    layers = sorted(layers_with(model, blocks).items())
    for batch in batches:
        of_side = [layer for (side, _), layer in layers if side == batch.kind]
        if of_side:  # the self-attention has the name of its side
            _add_side(sums, batch, of_side, categories)


def _add_side(sums: Gathered, batch: BlockBatch, layers: list[Layer], categories: int) -> None:
    """Adds the layers of the encoder or of the decoder."""
    is_token = batch.queries.categories >= 0
    ratios, kept, shares = [], [], []
    for layer in layers:
        parts = {part: layer.through(vectors) for part, vectors in layer.parts.items()}
        if "source" in parts:
            lengths = torch.stack([parts[part].norm(dim=-1) for part in PARTS])  # (3, 4, B, T)
            of_parts = share(lengths, lengths.sum(0) - lengths)[..., is_token]
            shares.append(of_parts.double().sum(-1).t().cpu().numpy())
        own = parts.pop("itself").norm(dim=-1)
        context = torch.stack(list(parts.values())).sum(0).norm(dim=-1)
        ratios.append(share(context, own))
        check_finite(ratios[-1].transpose(0, 1), batch.places)
        kept.append(_kept(layer.pair_norms(), is_token))
    name = f"mixing.{batch.kind}-layer"
    _add_ratios(sums, name, torch.stack(ratios), batch, categories)
    sums.add(f"{name}.kept.sum", np.stack(kept))
    if shares:
        sums.add(f"{name}.shares.sum", np.stack(shares))


def _kept(norms: Tensor, is_token: Tensor) -> np.ndarray:
    """Spearman of a sentence's norms before the net and in each form behind it.

    Args:
        norms: of all pairs in their four forms, (4, B, T, S); what a query does not see has 0.
        is_token: queries that are no padding, (B, T).

    Returns:
        Sums over sentences, and how many have one, (2, 3).
    """
    kept = np.zeros((2, len(norms) - 1))
    for of_sentence, rows in zip(norms.transpose(0, 1), is_token, strict=True):
        cells = of_sentence[:, rows]
        before, *behind = cells[:, cells[0] > 0].cpu().numpy()
        for place, form in enumerate(behind):
            rho = spearman(before, form)
            if rho is not None:
                kept[:, place] += rho, 1
    return kept


def mixing_of(arrays: Mapping[str, np.ndarray], name: str, categories: Categories) -> Mixing:
    """What was found of one kind of attention, or of the layers of one side."""
    own = arrays_of(arrays, f"mixing.{name}.")
    occurrences = own["ranked.sample"][:, 1:]  # rank, special, ratios
    of_layers = {}
    if name in LAYERS:
        sums, counts = own["kept.sum"].transpose(1, 0, 2)
        of_layers["kept"] = divided(sums, counts)
    if "shares.sum" in own:
        of_layers["shares"] = own["shares.sum"] / own["tokens.sum"][-1]
    return Mixing(
        analyses=LAYER_ANALYSES if name in LAYERS else ANALYSES,
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
        **of_layers,
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
    "FF-N": "what the feed-forward net makes of it, by norms",
    "FFRES-N": "feed-forward net and residual connection, by norms",
    "FFRESLN-N": "the whole layer, by norms",
}


@dataclass(frozen=True)
class MixingResult(Result):
    """The mixing ratios of a model, by kind of attention, and of layers if they were measured.

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
            ratio, analysis = 100 * float(mixing.mean[-1]), mixing.analyses[-1]
            found.append(f"{TITLES[kind]}: {ratio:.0f} % of the new state is context ({analysis}).")
        return found

    def blocks(self) -> list[Block]:
        by_analysis = {}
        for analysis, meaning in MEANINGS.items():
            having = [kind for kind, own in self.by_kind.items() if analysis in own.analyses]
            by_average = {}
            for average, title in AVERAGES.items():
                maps = [_map(kind, self.by_kind[kind], analysis, average) for kind in having]
                by_average[title] = [Row(on_one_scale(maps))]
            chosen = chosen_from("average", by_average, [AVERAGES[self.average]])
            if having:
                by_analysis[analysis] = [Note(f"{analysis}: {meaning}."), *chosen]
        tokens: Rows = []
        for kind, mixing in self.by_kind.items():
            counts = zip(mixing.categories, mixing.tokens.tolist(), strict=True)
            tokens += [[kind, *count] for count in counts]
        columns = ["attention", "category", "tokens"]
        return [
            self._summary(),
            *self._layers(),
            *chosen_from("analysis", by_analysis, self.analyses),
            Table(columns, tokens, "Tokens", name="tokens", hidden=True),
            *(_counts(TITLES[kind], mixing) for kind, mixing in self.by_kind.items()),
        ]

    def _summary(self) -> Table:
        rows: Rows = []
        for kind, mixing in self.by_kind.items():
            shares = 100 * np.stack([mixing.mean, mixing.low, mixing.high], axis=1)  # (5, 3)
            rhos = zip(mixing.rho, mixing.rho_without_specials, strict=True)
            for name, of_analysis, rho in zip(mixing.analyses, shares.tolist(), rhos, strict=True):
                rows.append([TITLES[kind], name, *of_analysis, *rho])
        columns = ["attention", "analysis", "mean", "min", "max"]
        columns += ["ρ with rank", "ρ without special tokens"]
        title = "Mixing ratio in % over all layers, and Spearman's ρ with frequency rank"
        return Table(columns, rows, title, [0, 0, 1, 1, 1, 2, 2], name="analyses")

    def _layers(self) -> list[Table]:
        """What the feed-forward nets do, if whole layers were measured."""
        shares: Rows = []
        kept: Rows = []
        for kind, mixing in self.by_kind.items():
            for layer, rhos in enumerate(mixing.kept, 1):
                kept.append([TITLES[kind], layer, *numbers(rhos)])
            for layer, of_layer in enumerate(mixing.shares, 1):
                for analysis, of_parts in zip(mixing.analyses, 100 * of_layer, strict=True):
                    shares.append([layer, analysis, *of_parts.tolist()])
        title = "Spearman's ρ of the norms of all pairs, before and behind the feed-forward net"
        columns = ["layers", "layer", *LAYER_ANALYSES[1:]]
        of_pairs = Table(columns, kept, title, [0, 0, 2, 2, 2], name="kept")
        title = "Decoder layers: lengths of the parts of a state, in % of their sum"
        columns = ["layer", "analysis", *PARTS]
        of_parts = Table(columns, shares, title, [0, 0, 1, 1, 1], name="parts")
        return [table for table in (of_pairs, of_parts) if table.rows]


def _map(kind: str, mixing: Mixing, analysis: str, average: str) -> Grid:
    """A row for each layer, a column for each category that has tokens."""
    means = getattr(mixing, average)[:, mixing.analyses.index(analysis)]  # (L, K+1)
    kept = np.flatnonzero(mixing.tokens)
    return Grid(
        f"{TITLES[kind]}: {analysis}, mixing ratio",
        "layer",
        "category",
        [str(layer) for layer in range(1, len(means) + 1)],
        [mixing.categories[place] for place in kept],
        (100 * means[:, kept]).tolist(),
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
