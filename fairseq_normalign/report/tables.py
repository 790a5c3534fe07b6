"""Results as aligned text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairseq_normalign.heads.names import Head, HeadCounts

STEPS = {"input": "align with input", "output": "align with output"}
LEGEND = (
    "AER in %, lower is better; * marks the best of a column, "
    "+ the layer that is chosen without gold."
)


def aer_table(scores: Mapping[Any, Any], choices: Mapping[str, Any]) -> str:
    """AER of each layer (and head) by step and method (Kobayashi et al., 2020, Fig. 7).

    Args:
        scores: evidence (method, layer, step, head) → counts.
        choices: method → layers and step that are chosen without gold.
    """
    aers = {(e.step, e.method, e.layer, e.head): 100 * counts.aer for e, counts in scores.items()}
    steps, methods, layers, heads = (list(dict.fromkeys(keys)) for keys in zip(*aers, strict=True))
    best = {
        min((k for k in aers if k[:2] == (step, method)), key=aers.get)
        for step in steps
        for method in methods
    }
    chosen = {
        (step, method, choice.layers[step], None)
        for method, choice in choices.items()
        for step in steps
    }
    width = max(map(len, methods)) + 4
    lines = [" " * 6 + "".join(f"    {STEPS[step]:<{width * len(methods) - 4}}" for step in steps)]
    lines.append(
        "layer " + "".join(f"{method:>{width - 2}}  " for _ in steps for method in methods)
    )
    for layer in layers:
        for head in heads:
            keys = [(step, method, layer, head) for step in steps for method in methods]
            marks = [("*" if key in best else "") + ("+" if key in chosen else "") for key in keys]
            cells = [
                f"{aers[key]:{width - 2}.1f}{mark:<2}"
                for key, mark in zip(keys, marks, strict=True)
            ]
            lines.append(
                f"{layer + 1}{'' if head is None else f'.{head + 1}'}".ljust(6) + "".join(cells)
            )
    better = ", ".join(f"{choice.step} for {method}" for method, choice in choices.items())
    return "\n".join(
        [*(line.rstrip() for line in lines), LEGEND, f"Step chosen without gold: {better}."]
    )


def kept_heads(kept: Sequence[Head], counts: HeadCounts) -> str:
    """The heads of each attention that are left, by their numbers before."""
    layers = sorted({layer for _, layer in counts})
    left = {name: [str(head.head + 1) for head in kept if head[:2] == name] for name in counts}
    width = max(7, *(len(" ".join(numbers)) for numbers in left.values())) + 2
    lines = ["attention" + "".join(f"  {f'layer {layer + 1}':<{width}}" for layer in layers)]
    for kind in dict.fromkeys(kind for kind, _ in counts):
        cells = [" ".join(left.get((kind, layer), [])) or "–" for layer in layers]
        lines.append(f"{kind:<9}" + "".join(f"  {cell:<{width}}" for cell in cells))
    by_kind = "/".join(
        str(sum(len(numbers) for name, numbers in left.items() if name[0] == kind))
        for kind in dict.fromkeys(kind for kind, _ in counts)
    )
    return "\n".join(
        [
            *(line.rstrip() for line in lines),
            f"{len(kept)} of {sum(counts.values())} heads left: {by_kind}",
        ]
    )
