"""What the heads of a layer have in common, whatever their order.

Heads of models that were trained with different seeds do not correspond: head 2 of the one is no
more like head 2 of the other than like its head 3. The heads of a layer as a set do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from fairseq_normalign.names import Head

SUMMARIES: dict[str, Callable[[Sequence[float]], float]] = {
    "lowest": min,
    "mean": fmean,
    "highest": max,
}

Layer = tuple[str, int]  # kind of attention, and layer from 0


def summaries_by_layer(scores: Mapping[Head, float]) -> dict[Layer, dict[str, float]]:
    """The lowest, mean and highest score of the heads of each layer."""
    values: dict[Layer, list[float]] = {}
    for head, score in scores.items():
        values.setdefault((head.kind, head.layer), []).append(score)
    summaries = {}
    for layer, of_heads in values.items():
        summaries[layer] = {name: summary(of_heads) for name, summary in SUMMARIES.items()}
    return summaries
