"""Records what attentions, or whole blocks, of a fairseq Transformer do in a forward pass."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import numpy as np
import torch
from torch import Tensor, nn

from fairseq_normalign.attention.block import Block, LayerNorm
from fairseq_normalign.attention.contributions import Recorded
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import (
    BlockModules,
    FairseqModule,
    Name,
    attentions,
    block_modules,
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


@contextmanager
def _recording(
    name: Name, module: FairseqModule, recording: Recording, *, values: bool, detach: bool
) -> Iterator[None]:
    """Asks an attention for head weights, keeps them, and returns what its caller asked for."""
    asked: dict[str, bool] = {}
    projected: list[Tensor] = []  # what the map to values returned, (S, B, H·D)

    def before(module, args, kwargs):
        asked["weights"] = kwargs.get("need_weights", True)
        asked["head weights"] = kwargs.get("need_head_weights", False)
        return args, {**kwargs, "need_weights": True, "need_head_weights": True}

    def project(module, args, output):
        projected[:] = [output]

    def after(module, args, kwargs, output):
        attended, weights = output  # weights: (H, B, T, S)
        by_head = weights[: head_count(module)]  # without heads, something stands in for them
        recorded = Recorded(by_head.transpose(0, 1))
        if values:
            state = kwargs.get("incremental_state")
            recorded.values = _values_of(module, recorded.weights, projected, state)
            weight = out_weight(module)  # (C, H·D)
            recorded.out_weight = weight.t().reshape(len(by_head), head_width(module), len(weight))
            recorded.out_bias = out_bias(module)
        recording[name] = recorded.detached() if detach else recorded
        projected.clear()
        if asked["head weights"]:
            return attended, weights
        return attended, weights.mean(dim=0) if asked["weights"] else None

    with (
        module.register_forward_pre_hook(before, with_kwargs=True),
        # Inner recorders answer first, so that the outer one finds the head weights it asked for.
        module.register_forward_hook(after, with_kwargs=True, prepend=True),
        value_projection(module).register_forward_hook(project),
    ):
        yield


def _values_of(
    module: FairseqModule, weights: Tensor, projected: list[Tensor], incremental_state: dict | None
) -> Tensor:
    """The values of all keys that have a weight, (B, H, S, D)."""
    batch, heads, _, keys = weights.shape
    if heads == 0:
        return weights.new_zeros(batch, heads, keys, head_width(module))
    if incremental_state is not None:  # this step projects the newest keys alone, or none
        values = cached_values(module, incremental_state)
    else:
        values = split_heads(projected[0], heads, head_width(module))
    beams = batch // len(values)
    return values if beams == 1 else values.repeat_interleave(beams, dim=0)


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
            refuse_unsupported((kind, layer), attention)
    there = {kind for kind, _ in watched}
    for kind in kinds:
        if kind not in there:
            raise InputError(
                f"{type(model).__name__} has no {kind} attention to record; attentions are: "
                f"{', '.join(KINDS)}"
            )
    refuse_keys_of_both_sides(model, watched)
    recording: Recording = {}
    with ExitStack() as stack:
        if detach:
            stack.enter_context(evaluation_mode(model))
        stack.enter_context(explicit_path(watched.values()))
        for name, module in watched.items():
            hooks = _recording(name, module, recording, values=values, detach=detach)
            stack.enter_context(hooks)
        yield recording


class _Stopped(Exception):
    """A forward pass has come as far as it should."""


@contextmanager
def stopping_after(module: nn.Module) -> Iterator[None]:
    """Ends the forward pass, and with it the context's block, as soon as a module has run.

    Hooks that the module has already see its output before.
    """

    def stop(module, args, output):
        raise _Stopped

    with suppress(_Stopped), module.register_forward_hook(stop):
        yield


def _last(
    model: nn.Module, kinds: Collection[str], layers: Collection[int] | None
) -> FairseqModule:
    """The attention that a forward pass comes to last, among some kinds and layers."""
    there = attentions(model)
    order = list(KINDS)
    among = [name for name in there if name[0] in kinds and (layers is None or name[1] in layers)]
    return there[max(among, key=lambda name: (order.index(name[0]), name[1]))]


def _run(
    forcing: TeacherForcing,
    pairs: list[Pair],
    kinds: Collection[str],
    layers: Collection[int] | None,
) -> None:
    """A pass that ends behind the last one of some attentions."""
    forcing.check_lengths(pairs)
    with torch.no_grad(), stopping_after(_last(forcing.model, kinds, layers)):
        forcing.forward(pairs)


def recorded(
    forcing: TeacherForcing,
    pairs: list[Pair],
    kinds: Collection[str],
    *,
    layers: Collection[int] | None = None,
    values: bool = True,
) -> Recording:
    """What some attentions did on a batch, padded on the right; nothing behind them is run."""
    with record(forcing.model, kinds, layers=layers, values=values) as recording:
        _run(forcing, pairs, kinds, layers)
    return recording


@contextmanager
def record_blocks(
    model: nn.Module, kinds: Collection[str], *, layers: Collection[int] | None = None
) -> Iterator[dict[Name, Block]]:
    """Records whole attention blocks while the context is open (see :func:`record`).

    Each forward pass over whole sentences replaces what the last one recorded.

    Args:
        kinds: which of ``encoder``, ``decoder``, ``cross``.
        layers: which layers, from 0; all of them by default.

    Yields:
        A dict ``(kind, layer) → Block``.
    """
    blocks: dict[Name, Block] = {}
    with record(model, kinds, layers=layers) as recording, ExitStack() as stack:
        for name, modules in block_modules(model, kinds).items():
            if layers is None or name[1] in layers:
                stack.enter_context(_watched(name, modules, recording, blocks))
        yield blocks


@contextmanager
def _watched(
    name: Name, modules: BlockModules, recording: Recording, blocks: dict[Name, Block]
) -> Iterator[None]:
    """Keeps what the hooks of an attention do not: the residual, and what values are made of."""
    attention, norm, before = modules
    layer_norm = None if before else LayerNorm.of(norm)
    states: dict[str, Tensor] = {}  # (B, T, C) and (B, S, C)

    def keep_residual(module, args, kwargs):
        read = args[0] if args else kwargs["query"]
        states["residual"] = read.detach().transpose(0, 1)

    def keep_inputs(module, args):
        states["inputs"] = args[0].detach().transpose(0, 1)

    def keep_block(module, args, output):
        residual, inputs = states.pop("residual"), states.pop("inputs", None)
        is_self = KINDS[name[0]].self_attention
        blocks[name] = Block(recording[name], residual, layer_norm, is_self, inputs)

    reads_residual = norm if before else attention
    with (
        reads_residual.register_forward_pre_hook(keep_residual, with_kwargs=True),
        value_projection(attention).register_forward_pre_hook(keep_inputs),
        attention.register_forward_hook(keep_block),  # behind the recorder's, which comes first
    ):
        yield


def recorded_blocks(
    forcing: TeacherForcing,
    pairs: list[Pair],
    kinds: Collection[str],
    *,
    layers: Collection[int] | None = None,
    until: int | None = None,
) -> dict[Name, Block]:
    """What whole attention blocks did on a batch, padded on the right; nothing behind them is run.

    Args:
        until: the last layer that is run, of the decoder if it is; the last of ``layers`` by
            default.
    """
    with record_blocks(forcing.model, kinds, layers=layers) as blocks:
        _run(forcing, pairs, kinds, layers if until is None else [until])
    return blocks


def check_finite(numbers: Tensor | np.ndarray, places: Sequence[str]) -> None:
    """Refuses inf and nan, at the first sentence that has them.

    A model that overflows in half precision gives them.

    Args:
        numbers: of each sentence, (B, …).
        places: what errors call each sentence.
    """
    numbers = torch.as_tensor(numbers)
    if numbers.isfinite().all():
        return
    for of_sentence, place in zip(numbers, places, strict=True):
        if not of_sentence.isfinite().all():
            raise InputError(
                f"{place}: the model gives numbers that are not finite (inf or nan); in half "
                "precision (--fp16), a model may overflow"
            )
