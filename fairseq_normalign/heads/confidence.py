"""How sure a head is, how much it moves, and its gate: scores that only look at attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fairseq_normalign.heads.attention_pass import Cells, Seen, Tally, running_heads
from fairseq_normalign.heads.head_scores import ProfileOptions
from fairseq_normalign.heads.profile import Finding
from fairseq_normalign.heads.profiling import HeadMeasure, Known
from fairseq_normalign.host.attention_modules import attentions, gate_values
from fairseq_normalign.host.raw_corpus import ChunkReader
from fairseq_normalign.names import Head
from fairseq_normalign.runs.chunks import Chunk


def confidences(shares: Tensor, seen: Cells, *, eos: str = "both") -> tuple[Tensor, int]:
    """Σ_t max_s α[t,s] by head, (H,), and how many t.

    Confidence is their mean (Voita et al., 2019), </s> excluded.

    Queries that see no word are skipped, as is the decoder's start, which sees only itself.

    Args:
        shares: α, or another non-negative quantity as shares of its row, (B, H, T, S).
        eos: ``key``: marks are no candidates for the maximum; ``both``: and as queries they do not
            count.
    """
    queries = _counted(seen, eos)
    best = shares.masked_fill(~seen.words.unsqueeze(1), 0).amax(-1)  # (B, H, T)
    return (best * queries.unsqueeze(1)).sum((0, 2)), int(queries.sum())


def entropies(weights: Tensor, seen: Cells, *, eos: str = "both") -> tuple[Tensor, int]:
    """Σ_t −Σ_s p[t,s] log p[t,s] by head in nats, (H,), and how many t.

    The lower their mean, the more confident is the head (Sennrich's wording of the confidence of
    Voita et al., 2019). p is α as shares of what the words that t sees get: marks such as </s> are
    no candidates, as in :func:`confidences`, and without the rest of its row α is no distribution.
    A row whose words get nothing at all is as unsure as can be: log of how many they are.

    Args:
        weights: α, (B, H, T, S).
        eos: as in :func:`confidences`: the same queries count.
    """
    queries = _counted(seen, eos)
    words = seen.words.unsqueeze(1)  # (B, 1, T, S)
    of_words = weights.masked_fill(~words, 0)
    total = of_words.sum(-1, keepdim=True)
    evenly = words / words.sum(-1, keepdim=True).clamp(min=1)
    shares = torch.where(total > 0, of_words / total, evenly)
    entropy = torch.special.entr(shares).sum(-1)  # (B, H, T)
    return (entropy * queries.unsqueeze(1)).sum((0, 2)), int(queries.sum())


def _counted(seen: Cells, eos: str) -> Tensor:
    """Queries that have a confidence, (B, T)."""
    queries = seen.words.any(-1)
    return queries & seen.queries if eos == "both" else queries


def row_shares(norms: Tensor) -> Tensor:
    """‖αf(x)‖ as shares of their row, marks included, (B, H, T, S); a row of zeros stays zero."""
    total = norms.sum(-1, keepdim=True)
    return norms / total.where(total > 0, total.new_ones(()))


def norm_sums(norms: Tensor, seen: Cells) -> tuple[Tensor, int]:
    """Σ_t Σ_s ‖αf(x_s)‖ by head over all cells that are seen, (H,), and how many queries t.

    Its mean is what a head adds to one query, which can be compared between kinds of attention. The
    mean over cells (Kobayashi et al., 2020) ranks the heads of one kind alike, but halves with
    twice as many keys.
    """
    of_seen = norms * seen.visible.unsqueeze(1)  # (B, H, T, S)
    queries = int(seen.visible.any(-1).sum())
    return of_seen.sum((0, 2, 3)), queries


class Confidence:
    """The mean of the largest weight of a query (Voita et al., 2019)."""

    def __init__(self, options: ProfileOptions):
        self.eos = options.confidence_eos
        self.tally = Tally()

    def __call__(self, seen: Seen) -> None:
        sums, cases = self.measured(seen)
        self.tally.add(seen.attention, sums.cpu(), cases)

    def measured(self, seen: Seen) -> tuple[Tensor, int]:
        """The sum over queries for each head, (H,), and how many queries."""
        return confidences(seen.recorded.weights, seen.cells, eos=self.eos)

    def result(self) -> Finding:
        return Finding(self.tally.means(), {"confidence-eos": self.eos})


class Entropy(Confidence):
    """The mean entropy of the weights of a query among words, in nats; low is confident."""

    def measured(self, seen: Seen) -> tuple[Tensor, int]:
        return entropies(seen.recorded.weights, seen.cells, eos=self.eos)


class NormConfidence(Confidence):
    """The same with ‖αf(x)‖ as shares of their row."""

    def measured(self, seen: Seen) -> tuple[Tensor, int]:
        return confidences(row_shares(seen.recorded.norms.weighted), seen.cells, eos=self.eos)


class Norm(Confidence):
    """Σ_s ‖αf(x_s)‖, mean over queries."""

    def measured(self, seen: Seen) -> tuple[Tensor, int]:
        return norm_sums(seen.recorded.norms.weighted, seen.cells)

    def result(self) -> Finding:
        return Finding(self.tally.means())


class Gates(HeadMeasure):
    """The gate of each head at test time; empty if the model has none."""

    def items(self, pairs: Sequence[Any]) -> Sequence[Any]:
        return []

    def prepared(self, models: ChunkReader, first: Chunk) -> dict[str, Any]:
        values = []
        modules = attentions(models.forcing.model)
        for attention in running_heads(models.forcing):
            gates = gate_values(modules[attention])
            if gates is not None:
                values += [[*attention, *gate] for gate in enumerate(gates.tolist())]
        return {"gates": values}

    def finding(self, tally: Tally, prepared: Known) -> dict[Head, float]:
        return {tally.names[Head(*head)]: gate for *head, gate in prepared["gates"]}
