"""Attention with some of its heads removed, even all of them."""

from __future__ import annotations

from pathlib import Path

import torch
from fairseq.modules import MultiheadAttention
from torch import nn

from fairseq_normalign.host.attention_modules import (
    FairseqModule,
    attentions,
    columns_of,
    head_count,
    head_counts,
    head_width,
    layers_of,
    out_projection,
    projections,
)
from fairseq_normalign.host.checkpoint import read
from fairseq_normalign.host.compat import shrink_copies
from fairseq_normalign.names import ALL, all_heads, format_heads, parse_heads

DEFAULT_RESTORE = "checkpoint_last.pt"


class PrunedAttention(MultiheadAttention):
    """fairseq's attention with fewer heads than fit the width of the model.

    fairseq's own code can do this where it computes step by step, but not without any head.
    """

    def forward(self, query, key, value, **options):
        if self.num_heads:
            return super().forward(query, key, value, **options)
        keys = self._key_count(query, key, options.get("incremental_state"))
        queries, batch, _ = query.shape
        weights = None  # or zeros; one head of them stands in for none, as fairseq takes the mean
        if options.get("need_head_weights", False):
            weights = query.new_zeros(1, batch, queries, keys)
        elif options.get("need_weights", True):
            weights = query.new_zeros(batch, queries, keys)
        bias = self.out_proj.bias
        return torch.zeros_like(query) if bias is None else bias.expand(query.shape), weights

    def _key_count(self, query, key, incremental_state) -> int:
        """S, how many keys there are.

        In incremental decoding, keys of no heads are kept to be counted, as those of heads are to
        be looked at.
        """
        keys = len(query) if key is None else len(key)
        if incremental_state is None or not self.self_attention:
            return keys
        buffer = self._get_input_buffer(incremental_state)
        if "prev_key" in buffer:
            keys += buffer["prev_key"].shape[2]
        empty = query.new_zeros(query.shape[1], 0, keys, self.head_dim)  # (B, H, S, D)
        self._set_input_buffer(incremental_state, {"prev_key": empty, "prev_value": empty})
        return keys


def remove_heads(model: FairseqModule, alive: str) -> None:
    """Removes all heads but these, as ``names`` writes them; they keep their names."""
    heads = parse_heads(alive, all_heads(head_counts(model)))
    for name, attention in attentions(model).items():
        kept = [head.head for head in heads if head[:2] == name]
        if len(kept) < head_count(attention):
            _shrink(attention, kept)
    for layer in layers_of(model.encoder):
        shrink_copies(layer)


def _shrink(attention: MultiheadAttention, heads: list[int]) -> None:
    """Leaves these heads, from 0: in fairseq's attributes, which are those of this class, too."""
    neurons = columns_of(heads, head_width(attention))
    for projection in projections(attention):
        projection.weight = nn.Parameter(projection.weight.detach()[neurons])
        if projection.bias is not None:
            projection.bias = nn.Parameter(projection.bias.detach()[neurons])
        projection.out_features = len(neurons)
    projection = out_projection(attention)
    projection.weight = nn.Parameter(projection.weight.detach()[:, neurons])
    projection.in_features = len(neurons)
    attention.num_heads, attention.embed_dim = len(heads), len(neurons)
    attention.head_numbers = tuple(heads)  # which host.attention reads
    attention.skip_embed_dim_check = True  # fairseq's word for heads that do not fill the width
    attention.__class__ = PrunedAttention


def alive_heads(options, model: nn.Module) -> str:
    """Which heads a model is to have, by its options, as ``names`` writes them.

    In training, they may be those of the checkpoint that it starts from. What is found is kept in
    the options, so that checkpoints say it.
    """
    known = all_heads(head_counts(model))
    text = getattr(options, "alive_heads", ALL)
    if text is None:
        start = start_of_training(options)
        text = ALL if start is None else alive_in(start)
    elif text.endswith(".pt"):
        text = alive_in(text)
    return format_heads(parse_heads(text, known), known)


def start_of_training(options) -> str | None:
    """What fairseq-train loads: the last checkpoint of the same training, or one that is named."""
    last = Path(getattr(options, "restore_file", None) or DEFAULT_RESTORE)
    if str(last) == DEFAULT_RESTORE:  # as fairseq: other names are not looked for in --save-dir
        last = Path(getattr(options, "save_dir", None) or "", last)
    if last.is_file():
        return str(last)
    return getattr(options, "finetune_from_model", None)


def alive_in(path: str) -> str:
    """Which heads the model of a checkpoint has, as ``names`` writes them."""
    return getattr(read(path)[1], "alive_heads", None) or ALL
