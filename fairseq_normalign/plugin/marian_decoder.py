"""A decoder whose ends are Marian's: another token that it reads first, a bias of the logits."""

from __future__ import annotations

from argparse import Namespace

import torch
from fairseq.models.transformer import TransformerDecoder
from torch import Tensor, nn


def has_own_ends(args: Namespace) -> bool:
    return bool(getattr(args, "logits_bias", False) or getattr(args, "start_with_bos", False))


class DecoderWithOwnEnds(TransformerDecoder):
    """fairseq's decoder that may begin with <s>, and may have a bias for each type.

    fairseq's tasks and searches begin with </s>, wherever they come from. It is read here as <s>:
    a target has no other </s> than its first one, as that at the end is never read.
    """

    def __init__(self, args, dictionary, embed_tokens):
        super().__init__(args, dictionary, embed_tokens)
        self.eos, self.bos = dictionary.eos(), dictionary.bos()
        self.starts_with_bos = getattr(args, "start_with_bos", False)
        self.logits_bias = None
        if getattr(args, "logits_bias", False):
            self.logits_bias = nn.Parameter(torch.zeros(len(dictionary)))

    def extract_features(self, prev_output_tokens, *args, **kwargs):
        return super().extract_features(self._begun(prev_output_tokens), *args, **kwargs)

    def _begun(self, prev_output_tokens: Tensor) -> Tensor:
        if not self.starts_with_bos:
            return prev_output_tokens
        return prev_output_tokens.masked_fill(prev_output_tokens.eq(self.eos), self.bos)

    def output_layer(self, features):
        logits = super().output_layer(features)
        return logits if self.logits_bias is None else logits + self.logits_bias
