"""Runs a model over a text and keeps the states of some tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from fairseq_normalign.analysis.token_table import ReadText, Tokens
from fairseq_normalign.host.batches import numbered_batches
from fairseq_normalign.host.pairs import Pair

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
    for batch in _batches(text, tokens.sentences[kept], max_tokens, progress):
        pairs = [pair for _, pair in batch]
        of_layers = text.states.run(pairs)
        for row, (sentence, pair) in enumerate(batch):
            rows, places = _rows(text, tokens, kept, sentence, pair)
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
    for batch in _batches(text, tokens.sentences[kept], max_tokens, progress):
        pairs = [pair for _, pair in batch]
        places_hidden = []
        for sentence, pair in batch:
            places_hidden.append(text.places(pair)[tokens.positions[hidden[sentence]]])
        usual_layers = text.states.run(pairs)[1:]
        hidden_layers = text.states.run_without(pairs, places_hidden)
        for row, (sentence, pair) in enumerate(batch):
            rows, places = _rows(text, tokens, kept, sentence, pair)
            for layer in range(layers):
                usual[layer, rows] = usual_layers[layer][row, places].float().cpu()
                without[layer, rows] = hidden_layers[layer][row, places].float().cpu()
    return usual, without


def _batches(
    text: ReadText, sentences: np.ndarray, max_tokens: int, progress: Progress
) -> Iterator[Batch]:
    """Batches of those sentences of a text that are needed."""
    needed = np.unique(sentences).tolist()
    pairs = [text.pairs[sentence] for sentence in needed]
    for batch in numbered_batches(pairs, max_tokens=max_tokens, progress=progress):
        yield [(needed[place], pair) for place, pair in batch]


def _rows(
    text: ReadText, tokens: Tokens, kept: np.ndarray, sentence: int, pair: Pair
) -> tuple[slice, list[int]]:
    """Which of the kept tokens a sentence has, and where the model reads them."""
    sentences = tokens.sentences[kept]
    first, end = np.searchsorted(sentences, [sentence, sentence + 1])
    places = text.places(pair)
    positions = tokens.positions[kept[first:end]]
    return slice(int(first), int(end)), [places[position] for position in positions]
