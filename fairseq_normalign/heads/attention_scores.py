"""Scores and roles that only look at attention: how sure a head is, how much it moves, and where.

Positional roles are those of Voita et al. (2019). They are read off the maxima of the weights:
marks such as </s> are never counted as a maximum, except in the pattern ``last``.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from fairseq_normalign.attention.layer import head_zeroing
from fairseq_normalign.attention.recorder import check_finite, recorded_blocks
from fairseq_normalign.heads.attention_pass import (
    Cells,
    Seen,
    Tally,
    batch_cells,
    choosing,
    maxima,
    summed,
)
from fairseq_normalign.heads.profile import Finding, missed, role
from fairseq_normalign.heads.profiling import AttentionScore, HeadMeasure, Items, Known
from fairseq_normalign.host.attention_modules import attentions, gate_values, head_numbers
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.raw_corpus import ChunkReader
from fairseq_normalign.names import Head
from fairseq_normalign.results.blocks import Rows, Table
from fairseq_normalign.runs.chunks import Chunk

# Raganato and Tiedemann (2018); their fourth is `last`.
PATTERNS = {"itself": 0, "previous": -1, "next": 1}


def confidences(shares: Tensor, seen: Cells, *, eos: str = "both") -> Tensor:
    """Σ_t max_s α[t,s], and how many t, by head, (H, 2).

    Confidence is their mean (Voita et al., 2019), </s> excluded.

    Queries that see no word are skipped, as is the decoder's start, which sees only itself.

    Args:
        shares: α, or another non-negative quantity as shares of its row, (B, H, T, S).
        eos: ``key``: marks are no candidates for the maximum; ``both``: and as queries they do not
            count.
    """
    best = shares.masked_fill(~seen.words.unsqueeze(1), 0).amax(-1)  # (B, H, T)
    return summed(best, _counted(seen, eos))


def entropies(weights: Tensor, seen: Cells, *, eos: str = "both") -> Tensor:
    """Σ_t −Σ_s p[t,s] log p[t,s] in nats, and how many t, by head, (H, 2).

    The lower their mean, the more confident is the head (Sennrich's wording of the confidence of
    Voita et al., 2019). p is α as shares of what the words that t sees get: marks such as </s> are
    no candidates, as in :func:`confidences`, and without the rest of its row α is no distribution.
    A row whose words get nothing at all is as unsure as can be: log of how many they are.

    Args:
        weights: α, (B, H, T, S).
        eos: as in :func:`confidences`: the same queries count.
    """
    words = seen.words.unsqueeze(1)  # (B, 1, T, S)
    of_words = weights.masked_fill(~words, 0)
    total = of_words.sum(-1, keepdim=True)
    evenly = words / words.sum(-1, keepdim=True).clamp(min=1)
    shares = torch.where(total > 0, of_words / total, evenly)
    return summed(torch.special.entr(shares).sum(-1), _counted(seen, eos))


def _counted(seen: Cells, eos: str) -> Tensor:
    """Queries that have a confidence, (B, T)."""
    queries = seen.words.any(-1)
    return queries & seen.queries if eos == "both" else queries


def row_shares(norms: Tensor) -> Tensor:
    """‖αf(x)‖ as shares of their row, marks included, (B, H, T, S); a row of zeros stays zero."""
    total = norms.sum(-1, keepdim=True)
    return norms / total.where(total > 0, total.new_ones(()))


def norm_sums(norms: Tensor, seen: Cells) -> Tensor:
    """Σ_t Σ_s ‖αf(x_s)‖ over all cells that are seen, and how many queries t, by head, (H, 2).

    Its mean is what a head adds to one query, which can be compared between kinds of attention. The
    mean over cells (Kobayashi et al., 2020) ranks the heads of one kind alike, but halves with
    twice as many keys.
    """
    of_seen = norms * seen.visible.unsqueeze(1)  # (B, H, T, S)
    return summed(of_seen.sum(-1), seen.visible.any(-1))


class Confidence(AttentionScore):
    """How sure a head is: its confidence by weights or by norms, or its entropy."""

    def rows(self, seen: Seen) -> Tensor:
        weights, eos = seen.recorded.weights, self.options.confidence_eos
        if self.score == "entropy":
            return entropies(weights, seen.cells, eos=eos)
        shares = row_shares(seen.recorded.norms.weighted) if "norm" in self.score else weights
        return confidences(shares, seen.cells, eos=eos)

    def finding(self, tally: Tally) -> Finding:
        settings = {"confidence-eos": self.options.confidence_eos}
        return Finding(tally.means(self.score), settings)


class Norm(AttentionScore):
    """Σ_s ‖αf(x_s)‖, mean over queries."""

    def rows(self, seen: Seen) -> Tensor:
        return norm_sums(seen.recorded.norms.weighted, seen.cells)


class ValueZeroing(HeadMeasure):
    """How much a block's output changes without the values of a head, mean over queries."""

    def add_batch(self, tally: Tally, models: ChunkReader, batch: list[Pair]) -> None:
        forcing = models.forcing
        device = next(forcing.model.parameters()).device
        kinds = {head.kind for head in tally.heads}
        for attention, block in recorded_blocks(forcing, batch, kinds).items():
            changes = head_zeroing(block)
            check_finite(changes, [pair.where for pair in batch])
            queries = batch_cells(batch, attention[0], device).visible.any(-1)
            tally.add(self.score, attention, summed(changes, queries))


class Gates(HeadMeasure):
    """The gate of each head at test time; empty if the model has none."""

    def items(self, models: ChunkReader, items: Items) -> Items:
        return []

    def prepared(self, models: ChunkReader, first: Chunk) -> Known:
        gates = head_gates(models.forcing.model)
        return {"gates": {str(head): gate for head, gate in gates.items()}}

    def finding(self, tally: Tally) -> Finding:
        gates = tally.known["gates"]
        return Finding({head: gates[str(head)] for head in tally.heads if str(head) in gates})


def head_gates(model: nn.Module) -> dict[Head, float]:
    """The gates at test time, by the names that heads had before any was removed."""
    values = {}
    for name, attention in attentions(model).items():
        gates = gate_values(attention)
        if gates is not None:
            for number, gate in zip(head_numbers(attention), gates.tolist(), strict=True):
                values[Head(*name, number)] = gate
    return values


def offsets(weights: Tensor, seen: Cells) -> Tensor:
    """Where the maximum of each word lies relative to it, (H, N), in self-attention.

    Words without a choice are left out.
    """
    positions = torch.arange(weights.shape[2], device=weights.device)
    relative = maxima(weights, seen.words) - positions  # (B, H, T)
    return relative.transpose(0, 1)[:, choosing(seen)]


def last_hits(weights: Tensor, seen: Cells) -> Tensor:
    """How many words have their maximum on the last token, usually </s>, by head, (H,).

    Raganato and Tiedemann (2018) name this pattern with the end of sentence as a token: here, marks
    count.
    """
    last = seen.visible.any(1).sum(1) - 1  # (B,)
    hits = maxima(weights, seen.visible) == last[:, None, None]
    return summed(hits, choosing(seen))[:, 0]


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


class Positions(AttentionScore):
    """Relative positions of maxima in self-attention; in the encoder, also the last token."""

    def rows(self, seen: Seen) -> Tensor | None:
        """Hits of the last token, then counts of positions, (H, 1 + M)."""
        weights = seen.recorded.weights
        if seen.attention[0] == "cross":
            return None
        counts = position_counts(offsets(weights, seen.cells).cpu().numpy())
        return torch.cat([last_hits(weights, seen.cells)[:, None], torch.tensor(counts)], 1)

    def finding(self, tally: Tally) -> Finding:
        """The favourite position, and shares of the patterns of Raganato and Tiedemann (2018)."""
        threshold = self.options.positional_threshold
        shares, labels, roles = {}, {}, {}
        table: Rows = []
        for head, (last, *counted) in tally.rows(self.score).items():
            counts = np.array(counted)
            total = counts.sum()
            if not total:
                continue
            offset, shares[head] = favourite(counts)
            labels[head] = f"{offset:+d}" if offset else "0"
            roles[head] = role("positional", labels[head], shares[head], threshold)
            patterns = {name: counts[place_of(offset)] for name, offset in PATTERNS.items()}
            if head.kind == "encoder":
                patterns["last"] = last
                roles[head] += role("last", "last", last / total, threshold)
            else:
                del patterns["next"]  # the decoder sees nothing that is later
            for name, cases in patterns.items():
                table.append([str(head), name, float(100 * cases / total)])
        if not shares:
            return Finding()
        patterns_table = Table(["head", "pattern", "share %"], table, name="patterns", hidden=True)
        blocks = [*missed("positional", shares, threshold), patterns_table]
        return Finding(shares, {"positional": threshold}, roles, blocks, {"position": labels})
