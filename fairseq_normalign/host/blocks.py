"""What one attention block of a fairseq layer is: its residual connection and its layer norm."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from fairseq.modules import MultiheadAttention
from fairseq.modules.transformer_layer import (
    TransformerDecoderLayerBase,
    TransformerEncoderLayerBase,
)
from fairseq.modules.transformer_sentence_encoder_layer import TransformerSentenceEncoderLayer
from torch import Tensor, nn

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.names import KINDS
from fairseq_normalign.host.attention import (
    FairseqModule,
    Name,
    attentions,
    layers_of,
    value_projection,
)
from fairseq_normalign.host.recorder import Recording, record
from fairseq_normalign.norms.mixing import Block, LayerNorm

PLAIN_SUMS = (
    TransformerEncoderLayerBase.residual_connection,
    TransformerDecoderLayerBase.residual_connection,
)
# Attributes of a layer that are set if something stands between its attention and the sum, and the
# options that set them (NormFormer). They are about the decoder's self-attention.
BETWEEN = {"c_attn": "--scale-heads", "attn_ln": "--scale-attn"}


class BlockModules(NamedTuple):
    """The modules of one attention block."""

    attention: MultiheadAttention
    layer_norm: FairseqModule
    before: bool  # whether the layer norm is before the attention


def block_modules(
    model: FairseqModule, kinds: Collection[str] = tuple(KINDS)
) -> dict[Name, BlockModules]:
    """The blocks of some kinds of attention, by (kind, layer from 0).

    Blocks that are no sum of attention and residual are refused.
    """
    by_name = {}
    for (kind, layer), attention in attentions(model).items():
        if kind not in kinds:
            continue
        module = layers_of(getattr(model, KINDS[kind].side))[layer]
        _refuse_unsupported((kind, layer), module)
        layer_norm = getattr(module, f"{KINDS[kind].attribute}_layer_norm")
        before = getattr(module, "normalize_before", False)
        by_name[kind, layer] = BlockModules(attention, layer_norm, before)
    return by_name


def _refuse_unsupported(name: Name, module: FairseqModule) -> None:
    """Refuses a layer whose attention is not just added to what it reads."""
    kind, number = name
    where = f"{kind} attention of layer {number + 1}"
    is_known = hasattr(module, "normalize_before") or isinstance(
        module, TransformerSentenceEncoderLayer
    )
    if not (is_known and hasattr(module, f"{KINDS[kind].attribute}_layer_norm")):
        raise InputError(
            f"{where} is in a {type(module).__name__}, which has no residual connection and layer "
            "norm that are known; expected a Transformer layer of fairseq"
        )
    if kind == "decoder":
        for attribute, option in BETWEEN.items():
            if getattr(module, attribute, None) is not None:
                raise InputError(f"{where} uses {option}, which changes it before it is added")
    sums = getattr(type(module), "residual_connection", PLAIN_SUMS[0])
    if sums not in PLAIN_SUMS:
        raise InputError(
            f"{where} is in a {type(module).__name__}, which has a residual connection of its own"
        )


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
