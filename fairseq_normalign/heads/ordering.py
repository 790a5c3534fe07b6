"""Checkpoints of the same function whose best aligning heads come first.

Engines that return alignments take the mean weights of the first heads of one decoder layer, at the
step that predicts a word, and leave out </s>. Permuting the heads of an attention, blocks of rows
of W_Q, W_K and W_V and of columns of W_O, leaves what it computes unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np

from fairseq_normalign.alignment.aer import score_links
from fairseq_normalign.alignment.aligner import AlignOptions, NormAligner
from fairseq_normalign.alignment.gain import word_gain
from fairseq_normalign.attention.extract import argmax
from fairseq_normalign.attention.soft import Evidence, Soft
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.pruning import Prunable
from fairseq_normalign.host.attention_modules import head_names, keep_heads
from fairseq_normalign.host.checkpoint import check_fit, is_stock, rename, save
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import Model
from fairseq_normalign.names import Head, in_stored_order
from fairseq_normalign.text.links import Gold

METHOD = "weights"  # what engines return
ALIGNING = "transformer_align"  # fairseq's architecture that heeds alignment_layer


class LayerOrder(NamedTuple):
    """The heads of a decoder layer, the best aligning one first."""

    layer: int  # from 0
    heads: Sequence[Head]
    scores: Sequence[float]  # of the mean of the first head, of the first two, …

    @property
    def best(self) -> Sequence[Head]:
        """The first heads, as many as align best together."""
        return self.heads[: int(np.argmax(self.scores)) + 1]


def layer_orders(
    model: Model,
    pairs: Sequence[Pair],
    gold: Sequence[Gold] | None = None,
    *,
    step: str = "output",
    max_tokens: int = 4000,
) -> list[LayerOrder]:
    """The order of the heads of each decoder layer.

    Without gold, links are scored by how well they predict words (``word_gain``), else by 1 − AER.
    """
    options = AlignOptions(method=METHOD, step=step, batch_tokens=max_tokens)
    aligner = NormAligner(model.forcing, model.reader, options)
    heads = [head for head in head_names(model.forcing.model) if head.kind == "cross"]
    evidences = [Evidence(METHOD, head.layer, step, head.head) for head in heads]
    softs = list(aligner.evidences_many(pairs, evidences))
    score = partial(_score, softs, pairs, gold)
    orders = []
    for layer, places in groupby(range(len(heads)), key=lambda place: heads[place].layer):
        ranked = sorted(places, key=lambda place: score([place]), reverse=True)
        scores = [score(ranked[: count + 1]) for count in range(len(ranked))]
        orders.append(LayerOrder(layer, [heads[place] for place in ranked], scores))
    return orders


def _score(
    softs: Sequence[Sequence[Soft]],
    pairs: Sequence[Pair],
    gold: Sequence[Gold] | None,
    places: Sequence[int],
) -> float:
    """How good the links of the mean of some heads are."""
    links = []
    for of_pair in softs:
        weights = np.mean([of_pair[place].words for place in places], axis=0)  # (T, S)
        links.append(argmax(weights))
    if gold is not None:
        return 1 - score_links(links, gold).aer
    linked = []
    for pair, found in zip(pairs, links, strict=True):
        linked.append((pair.source.text, pair.target.text, found))
    return word_gain(linked)


def best_order(orders: Sequence[LayerOrder]) -> LayerOrder:
    """That of the layer whose first heads align best."""
    return max(orders, key=lambda order: max(order.scores))


def write_ordered(path: str, orders: Sequence[LayerOrder], output: str) -> None:
    """Writes a checkpoint with its heads in this order, and says which ones align.

    fairseq's ``transformer`` becomes ``transformer_align``, which has the same parameters and takes
    its alignments from the heads that it is told.
    """
    stored = Prunable(path)
    if stored.log_alphas:
        raise InputError(f"{path}: has gates; fold them first: normalign prune --keep all")
    options, best = stored.options, best_order(orders)
    order = " ".join(str(head) for of_layer in orders for head in of_layer.heads)
    places = [stored.places[head] for head in in_stored_order(stored.heads, order)]
    stored.state["model"] = keep_heads(stored.state["model"], places, stored.head_dims)
    stored.state["last_optimizer_state"] = None
    options.head_order = order
    options.alignment_layer, options.alignment_heads = best.layer, len(best.best)
    if is_stock(options.arch):
        rename(stored.state, options, ALIGNING)
    check_fit(output, stored.state, options)
    save(stored.state, output)
