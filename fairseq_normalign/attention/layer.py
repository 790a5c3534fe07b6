"""What a whole Transformer layer adds up: attention, feed-forward net, residuals, layer norms.

Behind the attention blocks of a layer, the state y_i is a sum of one vector for each token and a
constant (see ``block``). The feed-forward net FF(y) = W₂ act(W₁y + b₁) + b₂ divides its output
among the summands of y by integrated gradients from 0 to y, as in Kobayashi et al. (2024), here
evaluated exactly: on the way κy the argument of act is κa + b₁ with a = W₁y, and elementwise

    ∫₀¹ act'(κa + b₁) dκ = (act(a + b₁) - act(b₁)) / a =: s,    act'(b₁) where a = 0.

A summand u of y becomes W₂(s ⊙ W₁u), and W₂ act(b₁) + b₂ belongs to no token; together they are
FF(y), without steps and without an approximation. The residual adds u itself, and the layer norm
is linear once its σ is known. In pre-LN the layer norm comes first.

Shapes: B batch, H heads, T queries, S keys, C model width, D head width, N width of the net. No
tensor has both T·S and C or N but for a few keys of one sentence at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_normalign.attention.block import Block, LayerNorm
from fairseq_normalign.attention.contributions import Recorded, over_pairs, wide
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import FairseqModule, Name, attentions, layers_of
from fairseq_normalign.names import KINDS

# Activations of single numbers by the name of fairseq's function; these also take float64.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_accurate": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
    "tanh": torch.tanh,
}
# What of a layer has parameters; more would also change what is added (a gate, an adapter).
KNOWN = {"self_attn", "encoder_attn", "self_attn_layer_norm", "encoder_attn_layer_norm"}
KNOWN |= {"fc1", "fc2", "final_layer_norm"}
LEAST_STEP = 1e-8  # in float64, where differences are exact to 1e-16
LEAST_CHANGE = 1e-30  # what rows of value zeroing are divided by at least


class FeedForward(NamedTuple):
    """The feed-forward net of a layer, and the layer norm before or behind it."""

    first: Tensor  # W₁, (N, C)
    first_bias: Tensor
    second: Tensor  # W₂, (C, N)
    second_bias: Tensor
    activation: Callable[[Tensor], Tensor]
    layer_norm: LayerNorm
    before: bool  # whether the layer norm is before the net

    def net(self, vectors: Tensor) -> Tensor:
        """FF(y), (…, C)."""
        return self.second_half(F.linear(vectors, self.first))

    def second_half(self, argument: Tensor) -> Tensor:
        """FF(y) for a = W₁y, (…, N) → (…, C)."""
        inner = self.activation(argument + self.first_bias)
        return F.linear(inner, self.second, self.second_bias)

    def __call__(self, states: Tensor) -> Tensor:
        """What the layer returns for the states behind its attention, (…, C)."""
        if self.before:
            return states + self.net(self.layer_norm(states))
        return self.layer_norm(states + self.net(states))

    def slope(self, argument: Tensor) -> Tensor:
        """s for a = W₁y, (…, N): mean slopes of the activation.

        In float64, as small differences are divided by small numbers. Where a is 0, the derivative
        is that of a tiny step.
        """
        bias, step = self.first_bias.double(), argument.double()
        step[step.abs() < LEAST_STEP] = LEAST_STEP
        return ((self.activation(bias + step) - self.activation(bias)) / step).to(argument.dtype)


@dataclass(eq=False)
class Layer:
    """What one layer did in one forward pass: how summands of its states pass its second half.

    Vectors have four forms, which are the first axis of what is returned, those of
    ``names.LAYER_ANALYSES``: in the state behind the attention blocks, in the output of the
    feed-forward net, in its sum with the residual, and behind the layer norm. In pre-LN, the last
    two are the same.

    Args:
        block: the last attention block.
        below: that of the decoder's self-attention, where source–target attention follows.
    """

    block: Block
    feed_forward: FeedForward
    below: Block | None = None

    @cached_property
    def state(self) -> Tensor:
        """y, behind the attention blocks, (B, T, C)."""
        return self.block.output

    @cached_property
    def argument(self) -> Tensor:
        """a = W₁y, in pre-LN W₁LN(y), (B, T, N)."""
        net = self.feed_forward
        return F.linear(net.layer_norm(self.state) if net.before else self.state, net.first)

    @cached_property
    def deviation(self) -> Tensor:
        """What the layer norm divides by, (B, T, 1)."""
        net, read = self.feed_forward, self.state
        if not net.before:
            read = read + net.second_half(self.argument)
        return net.layer_norm.deviation(read)

    @cached_property
    def slope(self) -> Tensor:
        """s, (B, T, N)."""
        return self.feed_forward.slope(self.argument)

    def hidden(self, vectors: Tensor) -> Tensor:
        """W₁u, in pre-LN W₁C(u) without σ, (…, C) → (…, N)."""
        if self.feed_forward.before:
            vectors = self.feed_forward.layer_norm.scaled(vectors)
        return F.linear(vectors, self.feed_forward.first)

    def passed(self, vectors: Tensor, hidden: Tensor, slope: Tensor, deviation: Tensor) -> Tensor:
        """The four forms of vectors, (4, …, C), with slope and deviation of their queries."""
        if self.feed_forward.before:
            slope = slope / deviation
        added = F.linear(hidden * slope, self.feed_forward.second)
        return self._forms(vectors, added, deviation)

    def _forms(self, vectors: Tensor, added: Tensor, deviation: Tensor) -> Tensor:
        summed = vectors + added
        normalised = summed
        if not self.feed_forward.before:
            normalised = self.feed_forward.layer_norm.scaled(summed) / deviation
        return torch.stack([vectors, added, summed, normalised])

    def through(self, vectors: Tensor) -> Tensor:
        """The four forms of a vector of each query, (B, T, C) → (4, B, T, C)."""
        return self.passed(vectors, self.hidden(vectors), self.slope, self.deviation)

    @cached_property
    def parts(self) -> dict[str, Tensor]:
        """What the state behind the attention blocks is a sum of, (B, T, C) each.

        That is the query's own token, and its context: in a decoder, the target's prefix and the
        source. A layer of which only source–target attention is known has no prefix: the stream
        that enters this attention is its own part.
        """
        own, context = self.block.normalised
        if self.below is None:
            return {"itself": own, "context": context}
        own, prefix = self.block.scaled(self.below.normalised) / self.block.deviation
        return {"itself": own, "prefix": prefix, "source": context}

    @property
    def constant(self) -> Tensor:
        """The four forms of what belongs to no token, (4, B, T, C)."""
        net, constant = self.feed_forward, self.block.constant
        if self.below is not None:
            constant = constant + self.block.scaled(self.below.constant) / self.block.deviation
        constant = constant.expand_as(self.state)
        added = self.through(constant)[1] + net.net(torch.zeros_like(constant))
        bias = wide(net.layer_norm.bias)
        if net.before:
            added = added + F.linear(F.linear(bias, net.first) * self.slope, net.second)
        *forms, normalised = self._forms(constant, added, self.deviation)
        return torch.stack([*forms, normalised if net.before else normalised + bias])

    @property
    def output(self) -> Tensor:
        """The sum of all parts and the constant, (4, B, T, C)."""
        return sum(map(self.through, self.parts.values()), self.constant)

    def pair_norms(self) -> Tensor:
        """‖·‖ of what each token adds to each query, in four forms: (4, B, T, S).

        In a decoder whose self-attention is known, keys are the tokens of the source and then
        those of the target. A query's own token has the residual.
        """
        block, below = self.block, self.below
        maps = [self._norms(block.recorded, block.scaled, block.deviation)]
        if below is not None:
            deviation = block.deviation * below.deviation
            maps.append(
                self._norms(below.recorded, lambda u: block.scaled(below.scaled(u)), deviation)
            )
        if (below or block).self_attention:
            own = self.through(self.parts["itself"]).norm(dim=-1)
            maps[-1] = maps[-1].diagonal_scatter(own, dim1=-2, dim2=-1)
        return torch.cat(maps, dim=-1)

    def _norms(
        self, recorded: Recorded, scaled: Callable[[Tensor], Tensor], deviation: Tensor
    ) -> Tensor:
        """The norms of one attention's vectors, (4, B, T, S).

        Args:
            scaled: C of the layer norms between the attention and the feed-forward net.
            deviation: their σ, (B, T, 1).
        """

        def measure(vectors: Tensor, slope: Tensor, deviation: Tensor) -> Tensor:
            state, hidden = vectors.split([width, vectors.shape[-1] - width], dim=-1)
            return self.passed(state, hidden, slope, deviation).norm(dim=-1)

        weights, values, out_weight = recorded.parts()
        width = out_weight.shape[-1]
        scaled_weight = scaled(out_weight)
        # W₁ is linear: it maps W_O of the heads once, not the vector of every pair.
        both = torch.cat([scaled_weight, self.hidden(scaled_weight)], dim=-1)  # (H, D, C + N)
        weights = weights / deviation.unsqueeze(1)
        return over_pairs(measure, weights, values, both, self.slope, self.deviation)


def layers_with(model: nn.Module, blocks: Mapping[Name, Block]) -> dict[Name, Layer]:
    """The layers that blocks were recorded of, by (``encoder`` or ``decoder``, layer from 0)."""
    layers = {}
    for (kind, number), block in blocks.items():
        if kind == "decoder" and ("cross", number) in blocks:
            continue  # it is below the other
        below = blocks.get(("decoder", number)) if kind == "cross" else None
        side = KINDS[kind].side
        layers[side, number] = Layer(block, feed_forward(model, side, number), below)
    return layers


def refuse_unknown_layers(model: nn.Module, kinds: Collection[str]) -> None:
    """Refuses layers that cannot be divided, and those of which only one attention is looked at."""
    there = attentions(model)
    for kind, number in there:
        if kind in kinds:
            feed_forward(model, KINDS[kind].side, number)
        elif kind == "cross" and "decoder" in kinds:
            raise InputError(
                "decoder layers also have source–target attention; for whole layers, use "
                "--attention all or encoder"
            )


def feed_forward(model: nn.Module, side: str, number: int) -> FeedForward:
    """That of one layer of the encoder or decoder, the layer counted from 0.

    What cannot be divided among tokens is refused by name.
    """
    layer: FairseqModule = layers_of(getattr(model, side))[number]
    where = f"{side} layer {number + 1}"
    if not (hasattr(layer, "fc1") and hasattr(layer, "fc2")):
        raise InputError(f"{where} has no feed-forward net of two linear maps")
    more = {name.partition(".")[0] for name, _ in layer.named_parameters()} - KNOWN
    if more:
        raise InputError(
            f"{where} also has {', '.join(sorted(more))}; only layers of attention, layer norms "
            "and a feed-forward net of two linear maps can be divided"
        )
    name = getattr(layer.activation_fn, "__name__", type(layer.activation_fn).__name__)
    if name not in ACTIVATIONS:
        raise InputError(
            f"{where}: activation {name} has no closed form; known: {', '.join(ACTIVATIONS)}"
        )
    return FeedForward(
        wide(layer.fc1.weight.detach()),
        wide(layer.fc1.bias.detach()),
        wide(layer.fc2.weight.detach()),
        wide(layer.fc2.bias.detach()),
        ACTIVATIONS[name],
        LayerNorm.of(layer.final_layer_norm),
        getattr(layer, "normalize_before", False),
    )


def value_zeroing(
    block: Block, feed_forward: FeedForward | None = None, heads: slice = slice(None)
) -> Tensor:
    """The share of each key in what zero values change, (B, T, S) (Mohebbi et al., 2023).

    Value zeroing keeps the weights α of an attention and runs the layer again without the value of
    token j. Only the attention's output changes, by Σ_h α_h[i,j] f_h(x_j), so that no second pass
    is needed: with u_i the sum that enters the layer norm,

        z_i = LN(u_i),    z_i without j = LN(u_i - Σ_h α_h[i,j] f_h(x_j)),

    and in pre-LN the same without LN. The feed-forward net and its layer norm may follow, as in the
    paper. The score is 1 - cos of both states, as a share of its row.

    Args:
        feed_forward: behind the block; None for the state before it.
        heads: whose values are zeroed together.
    """

    state = partial(_direction, block, feed_forward)

    def change(vectors: Tensor, sums: Tensor, unchanged: Tensor) -> Tensor:
        # 1 - cos as half the squared distance on the unit sphere: small changes keep their digits.
        return (state(sums - vectors) - unchanged).square().sum(-1) / 2

    parts = block.recorded.cut(heads).parts()
    changes = over_pairs(change, *parts, block.sum, state(block.sum))
    return changes / changes.sum(-1, keepdim=True).clamp(min=LEAST_CHANGE)


def head_zeroing(block: Block) -> Tensor:
    """1 - cos of the block's output with and without the values of each head, (B, H, T).

    As :func:`value_zeroing` of all tokens of a head at once: u_i - Σ_j α_h[i,j] f_h(x_j).
    """
    weights, values, out_weight = block.recorded.parts()
    context = weights @ values  # (B, H, T, D)
    unchanged = _direction(block, None, block.sum)
    changes = weights.new_zeros(weights.shape[:3])
    for head, to_output in enumerate(out_weight):
        without = _direction(block, None, block.sum - context[:, head] @ to_output)
        changes[:, head] = (without - unchanged).square().sum(-1) / 2
    return changes


def _direction(block: Block, feed_forward: FeedForward | None, sums: Tensor) -> Tensor:
    """The state that follows from the sum that enters a block's layer norm, at length 1."""
    states = sums if block.layer_norm is None else block.layer_norm(sums)
    return F.normalize(states if feed_forward is None else feed_forward(states), dim=-1)
