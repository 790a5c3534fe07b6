"""Records what the attentions of a fairseq Transformer do in a forward pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.names import KINDS
from fairseq_normalign.norms.contributions import Recorded

Recording = dict  # (kind, layer from 0) → Recorded


def layers_of(stack: nn.Module | None) -> list[nn.Module]:
    """The layers of an encoder or decoder, by index: iterating drops layers at random under
    layerdrop."""
    stack = getattr(stack, "sentence_encoder", stack)  # RoBERTa
    layers = getattr(stack, "layers", [])
    return [layers[index] for index in range(len(layers))]


def attentions(model: nn.Module) -> dict[tuple[str, int], MultiheadAttention]:
    """Every attention of the model by (kind, layer from 0)."""
    places = {
        "encoder": ("encoder", "self_attn"),
        "decoder": ("decoder", "self_attn"),
        "cross": ("decoder", "encoder_attn"),
    }
    return {
        (kind, layer): getattr(module, name)
        for kind, (side, name) in places.items()
        for layer, module in enumerate(layers_of(getattr(model, side, None)))
        # Language models have no cross-attention, convolutions no self-attention.
        if getattr(module, name, None) is not None
    }


def head_counts(model: nn.Module) -> dict[tuple[str, int], int]:
    """How many heads each attention has, by (kind, layer from 0)."""
    return {name: attention.num_heads for name, attention in attentions(model).items()}


def refuse_unsupported(name: tuple[str, int], attention: nn.Module) -> None:
    where = f"{name[0]} attention of layer {name[1] + 1}"
    if not isinstance(attention, MultiheadAttention):
        raise InputError(
            f"{where} is a {type(attention).__name__}; expected fairseq's MultiheadAttention"
        )
    if getattr(attention, "use_xformers", False):
        side = "encoder" if name[0] == "encoder" else "decoder"
        raise InputError(
            f"{where} uses --{side}-xformers-att-config, which returns no attention weights"
        )
    if attention.bias_k is not None or attention.add_zero_attn:
        raise InputError(f"{where} uses add_bias_kv or add_zero_attn: keys that are no token")


def split_heads(projected: Tensor, heads: int, width: int) -> Tensor:
    """(S, B, H·D) → (B, H, S, D)."""
    return projected.view(*projected.shape[:2], heads, width).permute(1, 2, 0, 3)


class _Hooks:
    """The hooks on one attention: asks it for head weights, keeps them, and returns what its caller
    asked for."""

    def __init__(
        self,
        attention: MultiheadAttention,
        keep: Callable[[Recorded], None],
        values: bool,
        detach: bool,
    ):
        self.attention, self.keep, self.values, self.detach = attention, keep, values, detach
        self.projected: Tensor | None = None

    def before(self, module, args, kwargs):
        self.asked = kwargs.get("need_weights", True), kwargs.get("need_head_weights", False)
        return args, {**kwargs, "need_weights": True, "need_head_weights": True}

    def project(self, module, args, output):
        self.projected = output

    def after(self, module, args, kwargs, output):
        attended, weights = output  # weights: (H, B, T, S)
        self.keep(self.recorded(weights.transpose(0, 1)))
        self.projected = None
        need_weights, need_head_weights = self.asked
        if need_head_weights:
            return attended, weights
        return attended, weights.mean(dim=0) if need_weights else None

    def recorded(self, weights: Tensor) -> Recorded:
        parts = [weights]
        if self.values:
            heads, width, out = (
                self.attention.num_heads,
                self.attention.head_dim,
                self.attention.out_proj,
            )
            out_weight = (
                out.last_weight if hasattr(out, "last_weight") else out.weight
            )  # gates are drawn at random
            projected = (
                weights.new_zeros(weights.shape[-1], len(weights), 0)
                if heads == 0
                else self.projected
            )
            parts += [
                split_heads(projected, heads, width),
                out_weight.t().reshape(heads, width, len(out_weight)),
                out.bias,
            ]
        return Recorded(
            *(part.detach() if self.detach and part is not None else part for part in parts)
        )

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
            handles.append(module.v_proj.register_forward_hook(self.project))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    training = [module for module in model.modules() if module.training]
    if training:
        model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def _explicit_path(chosen: Collection[MultiheadAttention]) -> Iterator[None]:
    """fairseq's own attention code instead of PyTorch's fused function, which gives no head
    weights."""
    before = [(attention, attention.skip_embed_dim_check) for attention in chosen]
    for attention in chosen:
        attention.skip_embed_dim_check = True
    try:
        yield
    finally:
        for attention, value in before:
            attention.skip_embed_dim_check = value


@contextmanager
def record(
    model: nn.Module,
    kinds: Collection[str] = ("cross",),
    *,
    layers: Collection[int] | None = None,
    values: bool = True,
    detach: bool = True,
) -> Iterator[Recording]:
    """Records attentions while the context is open; each forward pass replaces what the last one
    recorded.

    The model is in evaluation mode inside, and as it was outside. Its outputs stay what they are:
    bit by bit where fairseq takes its explicit path anyway (cross-attention), to rounding where
    that path must be forced.

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
    chosen = {
        name: attention
        for name, attention in attentions(model).items()
        if name[0] in kinds and (layers is None or name[1] in layers)
    }
    for kind in kinds:
        if not any(name[0] == kind for name in chosen):
            raise InputError(
                f"{type(model).__name__} has no {kind} attention to record; attentions are: "
                f"{', '.join(KINDS)}"
            )
    for name, attention in chosen.items():
        refuse_unsupported(name, attention)
    recording: Recording = {}
    with ExitStack() as stack:
        if detach:
            stack.enter_context(evaluation_mode(model))
        stack.enter_context(_explicit_path(chosen.values()))
        for name, attention in chosen.items():
            hooks = _Hooks(attention, partial(recording.__setitem__, name), values, detach)
            stack.enter_context(hooks.installed())
        yield recording
