"""Results as aligned text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fairseq_normalign.names import Head, HeadCounts
from fairseq_normalign.results.columns import columns

NOTHING = "–"


def kept_heads(kept: Sequence[Head], counts: HeadCounts) -> str:
    """The heads of each attention that are left, by their numbers before."""
    left: dict[tuple[str, int], list[str]] = {name: [] for name in counts}
    for head in kept:
        left[head.kind, head.layer].append(str(head.head + 1))
    kinds = list(dict.fromkeys(kind for kind, _ in counts))
    layers = sorted({layer for _, layer in counts})
    width = max(7, *(len(" ".join(numbers)) for numbers in left.values())) + 2
    rows = [["attention", *(f"{f'layer {layer + 1}':<{width}}" for layer in layers)]]
    for kind in kinds:
        cells = [" ".join(left.get((kind, layer), [])) or NOTHING for layer in layers]
        rows.append([kind, *cells])
    kept_by_kind = Counter(head.kind for head in kept)
    numbers = "/".join(str(kept_by_kind[kind]) for kind in kinds)
    lines = columns(rows, left=range(len(layers) + 1))
    lines.append(f"{len(kept)} of {sum(counts.values())} heads left: {numbers}")
    return "\n".join(lines)
