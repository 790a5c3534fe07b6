"""Random tokens in the source while a model trains, against overfitting to rare tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor

from fairseq_normalign.errors import InputError

# Tokens of languages, in fairseq's spellings __de__ and [de_DE], and in that of Johnson et al.
# (2017), <2de>.
LANGUAGE = re.compile(r"__[a-z]{2,3}(_\w+)?__|\[[a-z]{2,3}_\w+\]|<2[a-z]{2,3}>")


class SourceNoise:
    """Replaces each source token with probability p by any type of the dictionary.

    With p = 0.1, heads that look at the rarest token are said to go away (Sennrich on Voita et al.,
    2019). All types are equally likely, however frequent they are, and other tokens keep their
    places. Marks are left alone and never drawn: padding, </s>, <s> and tokens of languages. <unk>
    stands for a word: it can be replaced, but is not drawn, nor are the ``madeupword`` types that
    fill up a dictionary.

    Each draw is that of a seed, an update and a sentence's number: another one in every epoch, and
    the same one in a training that is resumed, or spread over more workers.
    """

    def __init__(self, probability: float, dictionary: Dictionary, *, seed: int = 1):
        if not 0 <= probability <= 1:
            raise InputError(f"--source-token-noise {probability}: must be from 0 to 1")
        self.probability, self.seed, self.pad = probability, seed, dictionary.pad()
        symbols = list(enumerate(dictionary.symbols))
        unk, special = dictionary.unk(), dictionary.nspecial
        is_mark = [
            (index < special and index != unk) or LANGUAGE.fullmatch(symbol) is not None
            for index, symbol in symbols
        ]
        self.marks = torch.tensor(is_mark)  # of each type: whether it is part of no word
        self.types = np.array(
            [
                index
                for index, symbol in symbols
                if not is_mark[index] and index != unk and not symbol.startswith("madeupword")
            ]
        )
        if not len(self.types):
            raise InputError(
                f"--source-token-noise {probability}: the dictionary has no words to draw"
            )

    def __call__(self, sample: Mapping[str, Any], update: int) -> dict[str, Any]:
        """A batch of fairseq with noise in its source; the batch itself is left as it is."""
        inputs = sample["net_input"]
        noisy = self.replaced(inputs["src_tokens"], sample["id"], update)
        return {**sample, "net_input": {**inputs, "src_tokens": noisy}}

    def replaced(self, tokens: Tensor, numbers: Tensor, update: int) -> Tensor:
        """Source tokens (B, S) of the sentences of these numbers (B,), with noise."""
        before = tokens.cpu()
        after = before.clone()
        for sentence, number in zip(after, numbers.tolist(), strict=True):
            of_sentence = sentence.ne(self.pad)  # wherever the padding is
            sentence[of_sentence] = self._drawn(sentence[of_sentence], number, update)
        return torch.where(self.marks[before], before, after).to(tokens.device)

    def _drawn(self, sentence: Tensor, number: int, update: int) -> Tensor:
        """A sentence (S,) with some of its tokens replaced, be they marks or not."""
        entropy = [abs(self.seed), update, abs(number)]  # fairseq allows any seed
        random = np.random.default_rng(entropy)
        replaced = torch.from_numpy(random.random(len(sentence)) < self.probability)
        others = torch.from_numpy(random.choice(self.types, len(sentence)))
        return torch.where(replaced, others, sentence)
