"""Results as aligned text."""

from __future__ import annotations

from typing import Any, Mapping

STEPS = {"input": "align with input", "output": "align with output"}


def aer_table(scores: Mapping[Any, Any]) -> str:
    """AER of each layer (and head) by step and method; ``*`` marks the best of each column (Kobayashi et al., Fig. 7).

    Args:
        scores: evidence (method, layer, step, head) → counts.
    """
    aers = {(e.step, e.method, e.layer, e.head): 100 * counts.aer for e, counts in scores.items()}
    steps, methods, layers, heads = (list(dict.fromkeys(keys)) for keys in zip(*aers))
    best = {
        min((key for key in aers if key[:2] == (step, method)), key=aers.get) for step in steps for method in methods
    }
    width = max(map(len, methods)) + 3
    lines = [" " * 6 + "".join(f"   {STEPS[step]:<{width * len(methods) - 3}}" for step in steps)]
    lines.append("layer " + "".join(f"{method:>{width - 1}} " for _ in steps for method in methods))
    for layer in layers:
        for head in heads:
            keys = [(step, method, layer, head) for step in steps for method in methods]
            cells = [f"{aers[key]:.1f}{'*' if key in best else ' '}" for key in keys]
            name = f"{layer + 1}" if head is None else f"{layer + 1}.{head + 1}"
            lines.append(f"{name:<6}" + "".join(f"{cell:>{width}}" for cell in cells))
    return "\n".join([*(line.rstrip() for line in lines), "AER in %, lower is better; * marks the best of a column."])
