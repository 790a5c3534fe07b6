"""What can be taken from one attention: weights, norms or the vectors themselves.

A new quantity is one line in :data:`QUANTITIES`. This module imports no PyTorch: ``--help`` reads
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fairseq_normalign.late import late

if TYPE_CHECKING:
    from fairseq_normalign.attention.contributions import Recorded


class Quantity(NamedTuple):
    formula: str
    axes: tuple[str, ...]  # of one layer and one sentence: head, query, key, width
    compute: Callable[..., Any]  # Recorded → (B, *axes)
    needs_values: bool = True  # whether it is computed from values and W_O, too


QUANTITIES = {
    "weights": Quantity(
        "α", ("head", "query", "key"), lambda recorded: recorded.weights, needs_values=False
    ),
    "head-norms": Quantity(
        "‖αf(x)‖", ("head", "query", "key"), lambda recorded: recorded.norms.weighted
    ),
    "norms": Quantity("‖Σ_h αf(x)‖", ("query", "key"), lambda recorded: recorded.norms.summed),
    "transformed-norms": Quantity(
        "‖f(x)‖", ("head", "key"), lambda recorded: recorded.norms.transformed
    ),
    "vectors": Quantity(
        "Σ_h αf(x)", ("query", "key", "width"), late("attention.contributions:summed_vectors")
    ),
    "head-vectors": Quantity(
        "αf(x)", ("head", "query", "key", "width"), late("attention.contributions:head_vectors")
    ),
}

# Of a whole model, not of one attention: what `normalign export` has beside them.
SOURCE_SHARE = "source-share"


def of_sentence(
    recorded: Recorded, index: int, queries: int, keys: int, heads: Sequence[int]
) -> Recorded:
    """One sentence of a batch without its padding on the right, B = 1; and some of its heads."""
    all_heads = len(heads) == recorded.weights.shape[1]
    which = slice(None) if all_heads else list(heads)  # a view if it can be
    sentence = slice(index, index + 1)
    weights = recorded.weights[sentence, which, :queries, :keys]
    if recorded.values is None:
        return type(recorded)(weights)
    values, out_weight = recorded.value_parts()
    return type(recorded)(weights, values[sentence, which, :keys], out_weight[which])
