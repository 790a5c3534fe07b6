"""Records what the attentions of a fairseq Transformer do in a forward pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from fairseq_normalign.attention.contributions import Recorded
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import (
    FairseqModule,
    Name,
    attentions,
    cached_values,
    explicit_path,
    head_count,
    head_width,
    out_bias,
    out_weight,
    refuse_keys_of_both_sides,
    refuse_unsupported,
    split_heads,
    value_projection,
)
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.names import KINDS

Recording = dict[Name, Recorded]


class _Hooks:
    """The hooks on one attention.

    They ask it for head weights, keep them, and return what its caller asked for.
    """

    def __init__(
        self,
        attention: FairseqModule,
        keep: Callable[[Recorded], None],
        *,
        values: bool,
        detach: bool,
    ):
        self.attention = attention
        self.keep = keep
        self.values = values
        self.detach = detach
        self.projected: Tensor | None = None  # what the map to values returned, (S, B, H·D)

    def before(self, module, args, kwargs):
        self.asked = kwargs.get("need_weights", True), kwargs.get("need_head_weights", False)
        return args, {**kwargs, "need_weights": True, "need_head_weights": True}

    def project(self, module, args, output):
        self.projected = output

    def after(self, module, args, kwargs, output):
        attended, weights = output  # weights: (H, B, T, S)
        by_head = weights[: head_count(module)]  # without heads, something stands in for them
        recorded = self.recorded(by_head.transpose(0, 1), kwargs.get("incremental_state"))
        self.keep(recorded.detached() if self.detach else recorded)
        self.projected = None
        need_weights, need_head_weights = self.asked
        if need_head_weights:
            return attended, weights
        if need_weights:
            return attended, weights.mean(dim=0)
        return attended, None

    def recorded(self, weights: Tensor, incremental_state: dict | None) -> Recorded:
        if not self.values:
            return Recorded(weights)
        heads, width = head_count(self.attention), head_width(self.attention)
        weight = out_weight(self.attention)  # (C, H·D)
        return Recorded(
            weights,
            self.values_of(weights, incremental_state),
            weight.t().reshape(heads, width, len(weight)),
            out_bias(self.attention),
        )

    def values_of(self, weights: Tensor, incremental_state: dict | None) -> Tensor:
        """The values of all keys that have a weight, (B, H, S, D)."""
        heads, width = head_count(self.attention), head_width(self.attention)
        batch, _, _, keys = weights.shape
        if heads == 0:
            return weights.new_zeros(batch, heads, keys, width)
        if incremental_state is not None:  # this step projects the newest keys alone, or none
            values = cached_values(self.attention, incremental_state)
        else:
            assert self.projected is not None
            values = split_heads(self.projected, heads, width)
        beams = batch // len(values)
        return values if beams == 1 else values.repeat_interleave(beams, dim=0)

    @contextmanager
    def installed(self) -> Iterator[None]:
        module = self.attention
        handles = [
            module.register_forward_pre_hook(self.before, with_kwargs=True),
            # Inner recorders answer first, so that the outer one finds the head weights it asked
            # for.
            module.register_forward_hook(self.after, with_kwargs=True, prepend=True),
        ]
        if self.values:
            handles.append(value_projection(module).register_forward_hook(self.project))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode; afterwards, each of its modules in the mode that it was in."""
    training = [module for module in model.modules() if module.training]
    if training:
        model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def record(
    model: nn.Module,
    kinds: Collection[str] = ("cross",),
    *,
    layers: Collection[int] | None = None,
    values: bool = True,
    detach: bool = True,
) -> Iterator[Recording]:
    """Records attentions while the context is open.

    Each forward pass replaces what the last one recorded.

    The model is in evaluation mode inside, and as it was outside. Its outputs stay what they are:
    bit by bit where fairseq takes its explicit path anyway (cross-attention), to rounding where
    that path must be forced.

    In incremental decoding, each step is a forward pass: its queries are the newest tokens, and its
    keys all tokens so far. In beam search, the batch counts beams.

    Args:
        kinds: which of ``encoder``, ``decoder``, ``cross``.
        layers: which layers, from 0; all of them by default.
        values: also keep values and W_O, which norms need and weights do not.
        detach: detach what is recorded from the graph. Without it, for losses on what attentions
            do, the model also stays in training mode if it is in it; weights are those before
            dropout.

    Yields:
        A dict ``(kind, layer) → Recorded``.
    """
    watched = {}
    for (kind, layer), attention in attentions(model).items():
        if kind in kinds and (layers is None or layer in layers):
            watched[kind, layer] = attention
    there = {kind for kind, _ in watched}
    for kind in kinds:
        if kind not in there:
            raise InputError(
                f"{type(model).__name__} has no {kind} attention to record; attentions are: "
                f"{', '.join(KINDS)}"
            )
    for name, attention in watched.items():
        refuse_unsupported(name, attention)
    refuse_keys_of_both_sides(model, watched)
    recording: Recording = {}
    with ExitStack() as stack:
        if detach:
            stack.enter_context(evaluation_mode(model))
        stack.enter_context(explicit_path(watched.values()))
        for name, attention in watched.items():
            keep = partial(recording.__setitem__, name)
            hooks = _Hooks(attention, keep, values=values, detach=detach)
            stack.enter_context(hooks.installed())
        yield recording


def recorded(
    forcing: TeacherForcing, pairs: list[Pair], *, layers: Collection[int], values: bool
) -> Recording:
    """What a model's attention did on a batch, padded on the right."""
    forcing.check_lengths(pairs)
    kinds = (forcing.attention,)
    with (
        torch.no_grad(),
        record(forcing.model, kinds, layers=layers, values=values) as recording,
    ):
        forcing.forward(pairs)
    return recording
