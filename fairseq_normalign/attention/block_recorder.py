"""Records what whole attention blocks of a fairseq Transformer do in a forward pass."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from fairseq_normalign.attention.block import Block, LayerNorm
from fairseq_normalign.attention.recorder import Recording, record
from fairseq_normalign.host.attention_modules import (
    BlockModules,
    FairseqModule,
    Name,
    block_modules,
    value_projection,
)
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.names import KINDS


def _parameters(layer_norm: FairseqModule, like: Tensor) -> LayerNorm:
    """γ, β and ε of a layer norm of some vectors, also of one that has no parameters."""
    gain, bias = layer_norm.weight, layer_norm.bias
    return LayerNorm(
        like.new_ones(like.shape[-1]) if gain is None else gain.detach(),
        like.new_zeros(like.shape[-1]) if bias is None else bias.detach(),
        layer_norm.eps,
    )


class _BlockHooks:
    """The hooks on one block, which keep what the attention's own do not: residual and inputs."""

    def __init__(self, modules: BlockModules):
        self.modules = modules
        self.residual: Tensor | None = None  # (T, B, C)
        self.inputs: Tensor | None = None  # (S, B, C)

    def before_attention(self, module, args, kwargs):
        self.residual = kwargs["query"] if "query" in kwargs else args[0]

    def before_layer_norm(self, module, args):
        self.residual = args[0]

    def before_values(self, module, args):
        self.inputs = args[0]

    @contextmanager
    def installed(self) -> Iterator[None]:
        attention, layer_norm, before = self.modules
        if before:
            handle = layer_norm.register_forward_pre_hook(self.before_layer_norm)
        else:
            handle = attention.register_forward_pre_hook(self.before_attention, with_kwargs=True)
        handles = [
            handle,
            value_projection(attention).register_forward_pre_hook(self.before_values),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


@contextmanager
def record_blocks(
    model: nn.Module, kinds: Collection[str], *, layers: Collection[int] | None = None
) -> Iterator[dict[Name, Block]]:
    """Records whole attention blocks while the context is open (see ``recorder.record``).

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
            if layers is not None and name[1] not in layers:
                continue
            hooks = _BlockHooks(modules)
            stack.enter_context(hooks.installed())

            def keep(module, args, output, name=name, hooks=hooks):
                blocks[name] = _block(name, hooks, recording, output[0])

            # Behind the recorder's own hook, which comes first.
            stack.callback(modules.attention.register_forward_hook(keep).remove)
        yield blocks


def _block(name: Name, hooks: _BlockHooks, recording: Recording, returned: Tensor) -> Block:
    kind, _ = name
    assert hooks.residual is not None
    residual = hooks.residual.detach().transpose(0, 1)
    inputs = hooks.inputs
    block = Block(
        recording[name],
        residual,
        None if hooks.modules.before else _parameters(hooks.modules.layer_norm, residual),
        KINDS[kind].self_attention,
        None if inputs is None else inputs.detach().transpose(0, 1),
        returned.detach().transpose(0, 1),
    )
    hooks.residual = hooks.inputs = None
    return block


def recorded_blocks(
    forcing: TeacherForcing,
    pairs: list[Pair],
    kinds: Collection[str],
    *,
    layers: Collection[int] | None = None,
) -> dict[Name, Block]:
    """What whole attention blocks did on a batch, padded on the right."""
    forcing.check_lengths(pairs)
    with torch.no_grad(), record_blocks(forcing.model, kinds, layers=layers) as blocks:
        forcing.forward(pairs)
    return blocks
