"""What can be taken from one attention: weights, norms or the vectors themselves.

A new quantity is one line in :data:`QUANTITIES`. Importing this module imports no PyTorch:
``--help`` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from fairseq_normalign.host.pairs import Pair
    from fairseq_normalign.host.teacher_forcing import TeacherForcing


class Quantity(NamedTuple):
    formula: str
    axes: tuple[str, ...]  # of one layer and one sentence: head, query, key, width
    compute: Callable[..., Any]  # Recorded → (B, *axes)
    needs_values: bool = True  # whether it is computed from values and W_O, too


BY_HEAD = ("head", "query", "key")
# The functions take a ``Recorded``.
QUANTITIES = {
    "weights": Quantity("α", BY_HEAD, attrgetter("weights"), needs_values=False),
    "head-norms": Quantity("‖αf(x)‖", BY_HEAD, attrgetter("norms.weighted")),
    "norms": Quantity("‖Σ_h αf(x)‖", ("query", "key"), attrgetter("norms.summed")),
    "transformed-norms": Quantity("‖f(x)‖", ("head", "key"), attrgetter("norms.transformed")),
    "vectors": Quantity("Σ_h αf(x)", ("query", "key", "width"), methodcaller("summed_vectors")),
    "head-vectors": Quantity("αf(x)", (*BY_HEAD, "width"), methodcaller("head_vectors")),
}

SOURCE_SHARE = "source-share"


def _source_shares(forcing: TeacherForcing, pairs: list[Pair]) -> Iterator[np.ndarray]:
    from fairseq_normalign.attention.alti import batch_source_shares

    return batch_source_shares(forcing, pairs)


# With what is of a whole model, not of one attention: computed for pairs, (L, *axes) of each.
EXPORTED = {**QUANTITIES, SOURCE_SHARE: Quantity("Σ_s M[t,s] (ALTI+)", ("query",), _source_shares)}
