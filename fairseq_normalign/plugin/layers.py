"""Which decoder layer aligns best, found without gold."""

from __future__ import annotations

from functools import partial
from typing import Iterable

from fairseq_normalign.alignment.agreement import most_agreeing
from fairseq_normalign.alignment.extract import argmax
from fairseq_normalign.plugin.corpus import Pair, map_batches
from fairseq_normalign.plugin.forced import STEPS, Evidence, Forced


def agreeing_layers(
    forced: Forced, pairs: Iterable[Pair], method: str = "norms", *, null: bool = True, batch_tokens: int = 4000
) -> dict[str, int]:
    """The layer, from 0, to take for each step.

    A word's alignment can be read off where the decoder reads the word, best at an early layer, and where it predicts
    it, best at a late one. Layers that are right agree with each other; layers that are wrong have no reason to. So
    take the two, one for each step, whose links agree most.

    Args:
        null: whether a word that takes most from </s> has no link.
    """
    layers = range(forced.layers)
    evidences = [Evidence(method, layer, step) for step in STEPS for layer in layers]
    softs = map_batches(pairs, partial(forced, evidences=evidences), max_tokens=batch_tokens)
    found = [[set(argmax(soft.words, null=soft.null if null else None)) for soft in pair] for pair in softs]
    candidates = list(zip(*found)) or [()] * len(evidences)
    return dict(zip(STEPS, most_agreeing(candidates[: len(layers)], candidates[len(layers) :])))
