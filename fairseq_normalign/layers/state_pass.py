"""Runs a model over a text and keeps the states of some tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from fairseq_normalign.host.batches import numbered_batches
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.layers.token_table import ReadText, Tokens

Progress = Callable[[int], object]
Batch = list[tuple[int, Pair]]  # numbers of sentences in the text, and their pairs


def kept_states(
    text: ReadText, tokens: Tokens, kept: np.ndarray, *, max_tokens: int, progress: Progress
) -> Tensor:
    """The states of some tokens by layer, from 0: (L + 1, N, C).

    Memory is that of the tokens that are kept, however long the text is.

    Args:
        kept: places in ``tokens``, ascending.
    """
    layers = len(text.states.layers) + 1
    states = torch.empty(layers, len(kept), text.states.width)
    rows_of = Rows(text, tokens, kept)
    for batch in rows_of.batches(max_tokens, progress):
        of_layers = text.states.run([pair for _, pair in batch])
        for row, (sentence, pair) in enumerate(batch):
            rows, places = rows_of(sentence, pair)
            for layer, of_batch in enumerate(of_layers):
                states[layer, rows] = of_batch[row, places].float().cpu()
    return states


def states_with_and_without(
    text: ReadText,
    tokens: Tokens,
    hidden: Mapping[int, int],
    kept: np.ndarray,
    *,
    max_tokens: int,
    progress: Progress,
) -> tuple[Tensor, Tensor]:
    """The states of some tokens as usual, and with another token hidden in each layer alone.

    Args:
        hidden: the token that is hidden in a sentence, by sentence: its place in ``tokens``.
        kept: places in ``tokens``, ascending; of sentences that have a hidden token.

    Returns:
        (L, N, C) each: the layers from 1.
    """
    layers = len(text.states.layers)
    usual = torch.empty(layers, len(kept), text.states.width)
    without = torch.empty_like(usual)
    rows_of = Rows(text, tokens, kept)
    for batch in rows_of.batches(max_tokens, progress):
        pairs = [pair for _, pair in batch]
        places_hidden = []
        for sentence, pair in batch:
            places_hidden.append(text.places(pair)[tokens.positions[hidden[sentence]]])
        usual_layers = text.states.run(pairs)[1:]
        hidden_layers = text.states.run_without(pairs, places_hidden)
        for row, (sentence, pair) in enumerate(batch):
            rows, places = rows_of(sentence, pair)
            for layer in range(layers):
                usual[layer, rows] = usual_layers[layer][row, places].float().cpu()
                without[layer, rows] = hidden_layers[layer][row, places].float().cpu()
    return usual, without


class Rows:
    """Which rows of an array of states the tokens of a sentence have.

    Args:
        kept: the tokens that have rows, as places in ``tokens``, ascending.
    """

    def __init__(self, text: ReadText, tokens: Tokens, kept: np.ndarray):
        self.text = text
        self.sentences = tokens.sentences[kept]
        self.positions = tokens.positions[kept]

    def batches(self, max_tokens: int, progress: Progress) -> Iterator[Batch]:
        """Batches of those sentences of the text that have rows."""
        needed = np.unique(self.sentences).tolist()
        pairs = [self.text.pairs[sentence] for sentence in needed]
        for batch in numbered_batches(pairs, max_tokens=max_tokens, progress=progress):
            yield [(needed[place], pair) for place, pair in batch]

    def __call__(self, sentence: int, pair: Pair) -> tuple[slice, list[int]]:
        """The rows of a sentence, and where the model reads their tokens."""
        first, end = np.searchsorted(self.sentences, [sentence, sentence + 1])
        places = self.text.places(pair)
        of_rows = [places[position] for position in self.positions[first:end]]
        return slice(int(first), int(end)), of_rows
