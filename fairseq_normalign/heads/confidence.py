"""How sure a head is, and how much it moves."""

from __future__ import annotations

import torch
from torch import Tensor

from fairseq_normalign.heads.cells import Cells


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
