"""Relevance of heads and tokens, from a Transformer's logits back to its embeddings.

Walks fairseq's encoder-decoder Transformer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_normalign.attention.lrp_rules import Epsilon, head_shares, rule_set
from fairseq_normalign.attention.recorder import evaluation_mode
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import (
    FairseqModule,
    Name,
    attentions,
    head_count,
    head_counts,
    layers_of,
    out_bias,
    out_weight,
    projections,
    query_scale,
    refuse_unsupported,
    single_beam,
)
from fairseq_normalign.names import KINDS

# Predictions pass the decoder in groups: rows after the last one of a group play no part in it.
# More groups save more rows, but each computes the decoder's inside again.
GROUPS, GROUP = 2, 8  # how many, and how large at least

# Parts of a layer or decoder that the walk does not know, and the options that build them.
UNSUPPORTED = {
    "attn_ln": "--scale-attn",
    "c_attn": "--scale-heads",
    "ffn_layernorm": "--scale-fc",
    "w_resid": "--scale-resids",
    "adaptive_softmax": "--adaptive-softmax-cutoff",
    "project_out_dim": "--decoder-output-dim",
}


class Relevance(NamedTuple):
    """Relevance of a batch, for each of P predictions, which start with 1 each."""

    heads: dict[Name, Tensor]  # share of each head in its layer, (B, P, H)
    source: Tensor  # of source tokens, (B, P, S)
    prefix: Tensor  # of the decoder's inputs, the start mark first, (B, P, T)
    # at the input of each layer, such as decoder.1, and of the output layer, (B, P)
    totals: dict[str, Tensor]


Back = Callable[[Tensor], Tensor]  # relevance of an output → that of the input
BranchBack = Callable[[Tensor], Tensor | None]  # None if the branch gives a constant
Branch = Callable[[Tensor], tuple[Tensor, BranchBack]]  # input → output, and the way back


class _Walk:
    """One way back through a model: a forward pass's states in, relevance out.

    A layer's inside is computed again from its input, when its turn comes: what is kept is small.
    """

    def __init__(self, rules: Epsilon, memory: Tensor):
        self.rules = rules
        self.memory = memory  # relevance of the encoder's output so far, (B, P, S, C)
        self.heads: dict[Name, Tensor] = {}
        self.totals: dict[str, Tensor] = {}

    def back_linear(self, x: Tensor, relevance: Tensor, *modules: FairseqModule) -> Tensor:
        """From linear maps of the same input, as from a single one."""
        parameters = [_parameters(module) for module in modules]
        if len(modules) == 1:
            weight, bias = parameters[0]
        else:
            weight, bias = (torch.cat(parts) for parts in zip(*parameters, strict=True))
        return self.rules.linear(x, weight, bias, relevance)

    def layer_norm(self, x: Tensor, module: FairseqModule) -> tuple[Tensor, Back]:
        weight, bias = _wide(module.weight), _wide(module.bias)
        out = F.layer_norm(x, x.shape[-1:], weight, bias, module.eps)
        return out, partial(self.rules.layer_norm, x, weight, bias, module.eps)

    def feed_forward(self, layer: FairseqModule, x: Tensor) -> tuple[Tensor, Back]:
        inner = layer.activation_fn(F.linear(x, *_parameters(layer.fc1)))

        def back(relevance: Tensor) -> Tensor:
            return self.back_linear(x, self.back_linear(inner, relevance, layer.fc2), layer.fc1)

        return F.linear(inner, *_parameters(layer.fc2)), back

    def attention(
        self,
        name: Name,
        module: FairseqModule,
        mask: Tensor,
        x: Tensor,
        memory: Tensor | None = None,
    ) -> tuple[Tensor, BranchBack]:
        """Self-attention, or source–target attention to a memory.

        The memory's relevance is added to what it has.

        Args:
            mask: what is not to be seen, (B or 1, 1, T or 1, S).
        """
        heads = head_count(module)
        weight, bias = _widened(out_weight(module), out_bias(module))
        if not weight.any():  # no head at all, or closed gates on all
            return bias.expand_as(x), partial(self.no_heads, name, heads)
        seen = x if memory is None else memory
        maps = projections(module)
        to_queries, to_keys, to_values = maps
        q = _by_head(F.linear(x, *_parameters(to_queries)), heads) * query_scale(module)
        k = _by_head(F.linear(seen, *_parameters(to_keys)), heads)
        v = _by_head(F.linear(seen, *_parameters(to_values)), heads)
        logits = (q @ k.transpose(-2, -1)).masked_fill(mask, float("-inf"))
        weights = logits.softmax(-1)  # (B, H, T, S)
        context = (weights @ v).transpose(1, 2).flatten(-2)

        def back(relevance: Tensor) -> Tensor:
            of_context = self.rules.linear(context, weight, bias, relevance)
            of_heads = of_context.unflatten(-1, (heads, -1)).transpose(2, 3)  # (B, P, H, T, D)
            self.heads[name] = head_shares(of_heads)
            of_maps = self.rules.attention(q, k, v, weights, of_heads)
            parts = list(zip(of_maps, maps, strict=True))
            if memory is None:
                return self.back_projections(x, parts)
            self.memory += self.back_projections(memory, parts[1:])
            return self.back_projections(x, parts[:1])

        return F.linear(context, weight, bias), back

    def back_projections(
        self, x: Tensor, parts: list[tuple[Tensor | None, FairseqModule]]
    ) -> Tensor:
        """From queries, keys and values, or some of them, to what they are projected from.

        They are (B, P, H, T, D) each.
        """
        given = [(part, projection) for part, projection in parts if part is not None]
        if not given:
            return torch.zeros_like(x).unsqueeze(1)  # P = 1: broadcast
        by_token = [part.transpose(2, 3) for part, _ in given]  # (B, P, T, H, D)
        maps = [projection for _, projection in given]
        return self.back_linear(x, torch.cat(by_token, dim=3).flatten(-2), *maps)

    def no_heads(self, name: Name, count: int, relevance: Tensor) -> None:
        """The way back from an attention that returns its bias."""
        self.heads[name] = relevance.new_zeros(*relevance.shape[:2], count)

    def residual(
        self,
        x: Tensor,
        norm: FairseqModule,
        before: bool,
        branch: Branch,
    ) -> tuple[Tensor, Back]:
        """x + branch(norm(x)), or norm(x + branch(x))."""
        if before:
            normed, back_norm = self.layer_norm(x, norm)
            branched, back_branch = branch(normed)
            out = x + branched
        else:
            branched, back_branch = branch(x)
            out, back_norm = self.layer_norm(x + branched, norm)

        def back(relevance: Tensor) -> Tensor:
            relevance = relevance if before else back_norm(relevance)
            of_x, of_branched = self.rules.add(x, branched, relevance)
            of_branch = back_branch(of_branched)
            if of_branch is None:
                return relevance
            return of_x.add_(back_norm(of_branch) if before else of_branch)

        return out, back

    def layer(
        self,
        side: str,
        index: int,
        layer: FairseqModule,
        x: Tensor,
        masks: Sequence[Tensor],
        memory: Tensor | None,
    ) -> tuple[Tensor, list[Back]]:
        """A layer's output, and the ways back through its parts, the last one first."""
        kinds = (side,) if memory is None else (side, "cross")
        branches: list[tuple[FairseqModule, Branch]] = []
        for kind, mask in zip(kinds, masks, strict=True):
            attribute = KINDS[kind].attribute
            seen = None if KINDS[kind].self_attention else memory
            attend = partial(
                self.attention, (kind, index), getattr(layer, attribute), mask, memory=seen
            )
            branches.append((getattr(layer, f"{attribute}_layer_norm"), attend))
        branches.append((layer.final_layer_norm, partial(self.feed_forward, layer)))
        backs: list[Back] = []
        for norm, branch in branches:
            x, back = self.residual(x, norm, layer.normalize_before, branch)
            backs.insert(0, back)
        return x, backs

    def decoder(
        self,
        decoder: FairseqModule,
        states: list[Tensor],
        masks: Sequence[Tensor],
        memory: Tensor,
        started: Tensor,
    ) -> Tensor:
        """From the output layer's input to the first layer's; ``memory`` collects on the way.

        Args:
            states: the input of each layer, and the output of the last one, (B, T, C).
        """
        self.totals["output"] = started.sum((2, 3))
        for cut, relevance in self.stack("decoder", decoder, states, masks, memory, started):
            self.totals[cut] = relevance.sum((2, 3)) + self.memory.sum((2, 3))
        return relevance

    def encoder(
        self, encoder: FairseqModule, states: list[Tensor], mask: Tensor, of_prefix: Tensor
    ) -> Tensor:
        """From the encoder's output, whose relevance is in ``memory``, to its first input."""
        for cut, relevance in self.stack("encoder", encoder, states, [mask], None, self.memory):
            self.totals[cut] = relevance.sum((2, 3)) + of_prefix
        return relevance

    def stack(
        self,
        side: str,
        stack: FairseqModule,
        states: list[Tensor],
        masks: Sequence[Tensor],
        memory: Tensor | None,
        relevance: Tensor,
    ) -> Iterator[tuple[str, Tensor]]:
        """Relevance of each layer's input, from the last layer to the first."""
        if stack.layer_norm is not None:
            relevance = self.layer_norm(states[-1], stack.layer_norm)[1](relevance)
        for index, layer in reversed(list(enumerate(layers_of(stack)))):
            for back in self.layer(side, index, layer, states[index], masks, memory)[1]:
                relevance = back(relevance)
            yield f"{side}.{index + 1}", relevance


def _wide(x: Tensor) -> Tensor:
    """At least single precision."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _widened(weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Weight and bias of a linear map; no bias is one of zeros."""
    weight = _wide(weight)
    if bias is None:
        return weight, weight.new_zeros(len(weight))
    return weight, _wide(bias)


def _parameters(module: FairseqModule) -> tuple[Tensor, Tensor]:
    return _widened(module.weight, module.bias)


def _by_head(projected: Tensor, heads: int) -> Tensor:
    """(B, T, H·D) → (B, H, T, D)."""
    return projected.unflatten(-1, (heads, -1)).transpose(1, 2)


def _refuse(model: FairseqModule) -> None:
    """Refuses a model that the walk does not know: all unsupported options at once."""
    name = type(model).__name__
    for side in ("encoder", "decoder"):
        if not layers_of(getattr(model, side, None)):
            raise InputError(
                f"{name} has no {side} of layers; relevance is for encoder-decoder Transformers"
            )
    _refuse_attentions(model)
    options = _unsupported_options(model)
    if options:
        raise InputError(
            f"{name} was built with {', '.join(sorted(options))}, which relevance does not pass"
        )


def _refuse_attentions(model: FairseqModule) -> None:
    known = attentions(model)
    for kind, (side, *_) in KINDS.items():
        for layer in range(len(layers_of(getattr(model, side)))):
            if (kind, layer) not in known:
                raise InputError(
                    f"{type(model).__name__} has no {kind} attention in layer {layer + 1}; "
                    "relevance passes attention only"
                )
            refuse_unsupported((kind, layer), known[kind, layer])


def _unsupported_options(model: FairseqModule) -> set[str]:
    options = set()
    for part in (model.decoder, *layers_of(model.encoder), *layers_of(model.decoder)):
        for attribute, option in UNSUPPORTED.items():
            if getattr(part, attribute, None) is not None:
                options.add(option)
        if getattr(part, "cross_self_attention", False):
            options.add("--cross-self-attention")
    return options


def propagate(
    model: FairseqModule,
    src_tokens: Tensor,
    prev_output_tokens: Tensor,
    *,
    pad: int,
    rules: str | Epsilon = "voita",
    pooled: bool = False,
    start: str = "top",
    targets: Tensor | None = None,
    positions: Sequence[int] | Tensor | None = None,
) -> Relevance:
    """Relevance of heads and tokens for what the model predicts, teacher-forced.

    The decoder's padding is on the right.

    Every target position is a prediction of its own (P = T), or all of a sentence start together,
    with equal parts of 1 (``pooled``, P = 1): much cheaper, but relevance of different signs
    cancels, and rescaling sees the sum. Padding neither starts nor receives relevance.

    Args:
        src_tokens: (B, S).
        prev_output_tokens: what the decoder reads, (B, T).
        rules: a rule set, or what ``attention.lrp_rules.rule_set`` reads: a name, or a name with
            its ε, such as ``epsilon:1e-3``.
        start: which logit starts: ``top``, the highest one, or ``reference``, that of the token in
            ``targets``, (B, T).
        positions: the target positions to start from, ascending; all of them by default.
    """
    assert start == "top" or targets is not None
    rules = rule_set(rules)
    _refuse(model)
    with torch.no_grad(), evaluation_mode(model), single_beam(model):
        passed = _forward(model, src_tokens, prev_output_tokens, pad)
        if start == "top" or targets is None:
            targets = model.decoder.output_layer(passed.features).argmax(-1)
        projection = model.decoder.output_projection
        started = _started(rules, projection, _wide(passed.features), targets, ~passed.padding)
        groups = _by_prediction(started, ~passed.padding, positions, pooled)
        return _walked(model, rules, passed, groups)


class _Forward(NamedTuple):
    """What a forward pass leaves for the way back."""

    features: Tensor  # the output layer's input, (B, T, C)
    src_states: list[Tensor]  # each encoder layer's input, and the last one's output, (B, S, C)
    states: list[Tensor]  # the same of the decoder, (B, T, C)
    memory: Tensor  # the encoder's output, (B, S, C)
    src_padding: Tensor  # (B, S)
    padding: Tensor  # (B, T)


def _forward(
    model: FairseqModule, src_tokens: Tensor, prev_output_tokens: Tensor, pad: int
) -> _Forward:
    src_padding = src_tokens.eq(pad)
    padding = prev_output_tokens.eq(pad)
    encoder_out = model.encoder(
        src_tokens, src_lengths=(~src_padding).sum(1), return_all_hiddens=True
    )
    features, extra = model.decoder.extract_features(prev_output_tokens, encoder_out=encoder_out)
    src_states = [_wide(state.transpose(0, 1)) for state in encoder_out["encoder_states"]]
    states = [_wide(state.transpose(0, 1)) for state in extra["inner_states"]]
    memory = _wide(encoder_out["encoder_out"][0].transpose(0, 1))
    return _Forward(features, src_states, states, memory, src_padding, padding)


def _walked(
    model: FairseqModule, rules: Epsilon, passed: _Forward, groups: Iterable[Tensor]
) -> Relevance:
    """The way back: through the decoder for each group of predictions, then through the encoder.

    The encoder is passed once, for all of them.

    Args:
        groups: relevance of the output layer's input, (B, P, T, C), cut to the rows that play a
            part.
    """
    memory = passed.memory
    length = passed.padding.shape[1]
    src_mask = passed.src_padding[:, None, None]
    mask = _causal(passed.padding)
    walks, prefixes = [], []
    for relevance in groups:
        _, predictions, rows, _ = relevance.shape
        walk = _Walk(rules, memory.new_zeros(len(memory), predictions, *memory.shape[1:]))
        states = [state[:, :rows] for state in passed.states]
        masks = mask[..., :rows, :rows], src_mask
        prefix = walk.decoder(model.decoder, states, masks, memory, relevance).sum(-1)
        prefixes.append(F.pad(prefix, (0, length - rows)))
        walks.append(walk)
    walk = _joined(rules, walks)
    prefix = torch.cat(prefixes, dim=1)
    source = walk.encoder(model.encoder, passed.src_states, src_mask, prefix.sum(-1)).sum(-1)
    heads = {name: walk.heads[name] for name in head_counts(model)}
    return Relevance(heads, source, prefix, walk.totals)


def _causal(padding: Tensor) -> Tensor:
    """What the decoder's rows must not see: padding and what comes later, (B, 1, T, T)."""
    size = padding.shape[1]
    future = torch.ones(size, size, dtype=torch.bool, device=padding.device).triu(1)
    return (future | padding[:, None])[:, None]


def _started(
    rules: Epsilon, projection: FairseqModule, features: Tensor, tokens: Tensor, real: Tensor
) -> Tensor:
    """Relevance of the output layer's input if each logit has 1, (B, T, C); 0 for padding."""
    bias = 0.0 if projection.bias is None else _wide(projection.bias)[tokens]
    return rules.logit(features, _wide(projection.weight)[tokens], bias) * real.unsqueeze(-1)


def _by_prediction(
    relevance: Tensor, real: Tensor, positions: Sequence[int] | Tensor | None, pooled: bool
) -> Iterator[Tensor]:
    """(B, T, C) → (B, P, T, C): each position a prediction of its own, or all of them together.

    Predictions come in groups, with as many rows as the last one of a group can see.
    """
    batch, length, width = relevance.shape
    if positions is None:
        positions = range(length)
    starts = torch.as_tensor(positions, device=relevance.device)
    if pooled:
        counts = real[:, starts].sum(1).clamp(min=1)
        out = torch.zeros_like(relevance)
        out[:, starts] = relevance[:, starts] / counts[:, None, None]
        yield out.unsqueeze(1)
        return
    for group in starts.split(max(GROUP, -(-len(starts) // GROUPS))):
        out = relevance.new_zeros(batch, len(group), int(group[-1]) + 1, width)
        out[:, torch.arange(len(group)), group] = relevance[:, group]
        yield out


def _joined(rules: Epsilon, walks: list[_Walk]) -> _Walk:
    """Walks of some predictions each as one of all of them."""
    joined = _Walk(rules, torch.cat([walk.memory for walk in walks], dim=1))
    first = walks[0]
    for name in first.heads:
        joined.heads[name] = torch.cat([walk.heads[name] for walk in walks], 1)
    for cut in first.totals:
        joined.totals[cut] = torch.cat([walk.totals[cut] for walk in walks], 1)
    return joined
