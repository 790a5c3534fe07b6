"""The states of a Transformer's layers, and what they would be without one of the tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from fairseq_normalign.attention.recorder import check_finite, evaluation_mode
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import attentions, explicit_path, layers_of
from fairseq_normalign.host.pairs import Pair, Sentence
from fairseq_normalign.host.teacher_forcing import TeacherForcing


class States:
    """One part of a model, ready to show the states of its layers.

    Layer 0 is what the first layer reads: embeddings with positions. Layer n is what the n-th layer
    returns; in models with the layer norm before the sums (pre-norm), that is before the norm which
    follows the last layer.

    Args:
        forcing: the model, its ``attention`` the part: ``encoder`` or ``decoder``.
    """

    def __init__(self, forcing: TeacherForcing):
        self.forcing, self.part = forcing, forcing.attention
        self.width = forcing.width  # C
        self.causal = self.part == "decoder"  # whether a token sees only what is before it
        # Whether the part reads the source of a pair, as all but the decoders of translation.
        self.reads_source = forcing.sides == ("source", "source")
        self.layers = layers_of(getattr(forcing.model, self.part))
        modules = attentions(forcing.model)
        self.attentions = [modules.get((self.part, layer)) for layer, _ in enumerate(self.layers)]
        if None in self.attentions:
            layer = self.attentions.index(None) + 1
            raise InputError(f"layer {layer} of the {self.part} has no self-attention")

    def sentence(self, pair: Pair) -> Sentence:
        """The side of a pair that is read."""
        return pair.source if self.reads_source else pair.target

    def words(self, pair: Pair) -> list[int]:
        """The word of each token as it is read; -1 for marks.

        The decoder of a translation model reads one behind.
        """
        words = self.sentence(pair).words
        return words if self.reads_source else [-1, *words[:-1]]

    def tokens(self, pair: Pair) -> list[int]:
        """The tokens as they are read."""
        tokens = self.sentence(pair).tokens.tolist()
        return tokens if self.reads_source else [self.forcing.start, *tokens[:-1]]

    def run(self, pairs: list[Pair]) -> list[Tensor]:
        """The states of a batch by layer, from 0: (B, T, C) each, padded on the right."""
        states: list[Tensor] = []

        def after(module, args, kwargs, output):
            states.append(batch_first(output))

        first = keep_input(states, "x")
        with hooked(self.layers[:1], before=first), hooked(self.layers, after=after):
            self._forward(pairs)
        for of_layer in states:
            check_finite(of_layer, [pair.where for pair in pairs])
        return states

    def run_without(self, pairs: list[Pair], hidden: Sequence[int]) -> list[Tensor]:
        """What each layer would return if one token of each sentence were hidden from the others.

        The layers below it are as usual: layer n reads the states of layer n − 1, and no query of
        its self-attention sees the token as a key (Voita et al., EMNLP 2019).

        Args:
            hidden: the place of the token in each sentence as it is read.

        Returns:
            (B, T, C) for each layer, from 1.
        """
        states: list[Tensor] = []
        places = torch.tensor(hidden)

        def after(module, args, kwargs, output):
            attention = self.attentions[len(states)]
            with hooked([attention], before=partial(hide_keys, places)):
                states.append(batch_first(module.forward(*args, **kwargs)))

        with hooked(self.layers, after=after):
            self._forward(pairs)
        return states

    def _forward(self, pairs: list[Pair]) -> None:
        """One pass, in fairseq's own attention code, so that all passes have the same rounding."""
        self.forcing.check_lengths(pairs)
        with torch.no_grad(), evaluation_mode(self.forcing.model), explicit_path(self.attentions):
            self.forcing.forward(pairs)


def batch_first(output: Any) -> Tensor:
    """What a layer returns, perhaps beside other things, (T, B, C) → (B, T, C)."""
    states = output[0] if isinstance(output, tuple) else output
    return states.transpose(0, 1)


def keep_input(states: list[Tensor], name: str) -> Callable:
    """A hook that keeps what a module is called with, by name or as its first argument."""

    def keep(module, args, kwargs):
        states.append(batch_first(kwargs[name] if name in kwargs else args[0]))

    return keep


def hide_keys(places: Tensor, module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """Adds the place of each sentence to the keys that an attention does not see."""
    keys = kwargs["key"]  # (T, B, C)
    length, batch = keys.shape[:2]
    hidden = torch.zeros(batch, length, dtype=torch.bool, device=keys.device)
    hidden[torch.arange(batch), places] = True
    if kwargs.get("key_padding_mask") is not None:
        hidden |= kwargs["key_padding_mask"].bool()
    return args, {**kwargs, "key_padding_mask": hidden}


@contextmanager
def hooked(
    modules: Iterable[nn.Module], *, before: Callable | None = None, after: Callable | None = None
) -> Iterator[None]:
    """Calls hooks before or after each of some modules while the context is open."""
    with ExitStack() as stack:
        for module in modules:
            if before is not None:
                stack.enter_context(module.register_forward_pre_hook(before, with_kwargs=True))
            if after is not None:
                stack.enter_context(module.register_forward_hook(after, with_kwargs=True))
        yield
