"""Relevance of heads and tokens, from a Transformer's logits back to its embeddings.

Walks fairseq's encoder-decoder Transformer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_normalign.attention.contributions import wide
from fairseq_normalign.attention.lrp_rules import Epsilon, Parameters, head_shares, rule_set
from fairseq_normalign.attention.recorder import evaluation_mode
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import (
    FairseqModule,
    Name,
    attentions,
    head_count,
    layers_of,
    out_bias,
    out_weight,
    projections,
    query_scale,
    refuse_unsupported,
    single_beam,
)
from fairseq_normalign.names import KINDS

# Predictions are explained in groups: decoder rows after the last one of a group play no part.
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


Back = Callable[[Tensor], Tensor]  # what rules pass to an output → what they pass to the input
# Input → output, and the way back, which gives None if the output is a constant
Branch = Callable[[Tensor], tuple[Tensor, Callable[[Tensor], Tensor | None]]]


def propagate(
    model: FairseqModule,
    src_tokens: Tensor,
    prev_output_tokens: Tensor,
    *,
    rules: str | Epsilon = "voita",
    pooled: bool = False,
    targets: Tensor | None = None,
    at_once: int | None = None,
    only_source: bool = False,
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
        targets: the token whose logit starts at each position, (B, T); the one of the highest
            logit by default.
        at_once: how many predictions of each sentence are held in memory; all of them by default.
        only_source: that of source tokens is all that is wanted: the way back through the decoder
            ends above the self-attention of its first layer, and there are no shares of heads.
    """
    rules = rule_set(rules)
    _refuse(model)
    with torch.no_grad(), evaluation_mode(model), single_beam(model):
        walk = _Walk(model, rules, src_tokens, prev_output_tokens, only_source)
        started = walk.started(targets)  # (B, T, C)
        if pooled:
            counts = (~walk.padding).sum(1).clamp(min=1)
            return walk.relevance([(started / counts[:, None, None]).unsqueeze(1)])
        length = started.shape[1]
        size = min(max(GROUP, -(-length // GROUPS)), at_once or length)
        return walk.relevance(_by_prediction(started, size))


def _by_prediction(started: Tensor, size: int) -> Iterator[Tensor]:
    """(B, T, C) → (B, P, T, C): each position a prediction of its own.

    Predictions come in groups of some size, with as many rows as the last one can see.
    """
    batch, length, width = started.shape
    for group in torch.arange(length).split(size):
        relevance = started.new_zeros(batch, len(group), int(group[-1]) + 1, width)
        relevance[:, torch.arange(len(group)), group] = started[:, group]
        yield relevance


def _refuse(model: FairseqModule) -> None:
    """Refuses a model that the walk does not know: all unsupported options at once."""
    name = type(model).__name__
    known = attentions(model)
    parts = [getattr(model, "decoder", None)]
    for kind, (side, *_) in KINDS.items():
        layers = layers_of(getattr(model, side, None))
        names = [(kind, layer) for layer in range(len(layers))]
        if not names or not known.keys() >= set(names):
            raise InputError(
                f"{name} has no {kind} attention in every layer; relevance is for encoder-decoder "
                "Transformers"
            )
        for place in names:
            refuse_unsupported(place, known[place])
        parts += layers
    options = set()
    for part in parts:
        for attribute, option in UNSUPPORTED.items():
            if getattr(part, attribute, None) is not None:
                options.add(option)
        if getattr(part, "cross_self_attention", False):
            options.add("--cross-self-attention")
    if options:
        raise InputError(
            f"{name} was built with {', '.join(sorted(options))}, which relevance does not pass"
        )


class _Walk:
    """One way back through a model: a forward pass's states in, relevance out.

    A layer's inside is computed again from its input, once for all groups of predictions.
    """

    def __init__(
        self,
        model: FairseqModule,
        rules: Epsilon,
        src_tokens: Tensor,
        prev_output_tokens: Tensor,
        only_source: bool = False,
    ):
        self.model, self.rules, self.only_source = model, rules, only_source
        src_padding = src_tokens.eq(model.encoder.padding_idx)
        self.src_mask = src_padding[:, None, None]  # (B, 1, 1, S)
        self.padding = prev_output_tokens.eq(model.encoder.padding_idx)  # (B, T)
        encoder_out = model.encoder(
            src_tokens, src_lengths=(~src_padding).sum(1), return_all_hiddens=True
        )
        self.features, extra = model.decoder.extract_features(
            prev_output_tokens, encoder_out=encoder_out
        )
        states = {"encoder": encoder_out["encoder_states"], "decoder": extra["inner_states"]}
        # Each layer's input, and the last one's output, (B, T, C)
        self.states = {side: [_batch_first(x) for x in found] for side, found in states.items()}
        self.encoded = _batch_first(encoder_out["encoder_out"][0])  # (B, S, C)
        self.backs: dict[tuple[str, int], list[Back]] = {}  # of layers whose turn has come
        # Of groups of predictions, one after the other
        self.heads: dict[Name, list[Tensor]] = defaultdict(list)
        self.totals: dict[str, list[Tensor]] = defaultdict(list)

    def started(self, tokens: Tensor | None) -> Tensor:
        """What is passed to the output layer's input if each logit has relevance 1, (B, T, C).

        0 for padding.
        """
        decoder = self.model.decoder
        if tokens is None:
            tokens = decoder.output_layer(self.features).argmax(-1)
        weight, bias = _parameters(decoder.output_projection)
        started = self.rules.logit(wide(self.features), weight[tokens], bias[tokens])
        return started * ~self.padding.unsqueeze(-1)

    def relevance(self, groups: Iterable[Tensor]) -> Relevance:
        """The way back through decoder and encoder, for each group of predictions.

        Args:
            groups: what is passed to the output layer's input, (B, P, T, C), cut to the rows that
                play a part.
        """
        sources, prefixes = [], []
        for started in groups:
            # What is passed to the encoder's output, to which every layer of the decoder adds
            self.memory = self.encoded.new_zeros(*started.shape[:2], *self.encoded.shape[1:])
            of_tokens = self.of_tokens(self.features, started)
            self.totals["output"].append(of_tokens.sum(2))
            for cut, of_tokens in self.stack("decoder", started):
                of_memory = self.of_tokens(self.encoded, self.memory)
                self.totals[cut].append(of_tokens.sum(2) + of_memory.sum(2))
            prefix = of_tokens
            for cut, of_tokens in self.stack("encoder", self.memory):
                self.totals[cut].append(of_tokens.sum(2) + prefix.sum(2))
            sources.append(of_tokens)
            prefixes.append(F.pad(prefix, (0, self.padding.shape[1] - prefix.shape[2])))
        heads = {}
        for name in attentions(self.model):
            if name in self.heads:
                heads[name] = torch.cat(self.heads[name], dim=1)
        totals = {cut: torch.cat(found, dim=1) for cut, found in self.totals.items()}
        return Relevance(heads, torch.cat(sources, dim=1), torch.cat(prefixes, dim=1), totals)

    def of_tokens(self, x: Tensor, passed: Tensor) -> Tensor:
        """Relevance of the tokens of a state x, (B, P, T)."""
        return self.rules.relevance(wide(x), passed).sum(-1)

    def stack(self, side: str, passed: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Relevance of the tokens at each layer's input, from the last layer to the first."""
        stack, states = getattr(self.model, side), self.states[side]
        if stack.layer_norm is not None:
            passed = self.layer_norm(states[-1], stack.layer_norm)[1](passed)
        for index in reversed(range(len(layers_of(stack)))):
            if (side, index) not in self.backs:
                self.backs[side, index] = self.layer(side, index, states[index])[1]
            backs = self.backs[side, index]
            if self.only_source and (side, index) == ("decoder", 0):
                backs = backs[1:]  # self-attention, below which there are only prefixes
            for back in reversed(backs):
                passed = back(passed)
            yield f"{side}.{index + 1}", self.of_tokens(states[index], passed)

    def layer(self, side: str, index: int, x: Tensor) -> tuple[Tensor, list[Back]]:
        """A layer's output, and the ways back through its parts, in their order."""
        layer = layers_of(getattr(self.model, side))[index]
        branches: list[tuple[FairseqModule, Branch]] = []
        for kind, (of_side, attribute, *_) in KINDS.items():
            if of_side == side:
                attend = partial(self.attention, (kind, index), getattr(layer, attribute))
                branches.append((getattr(layer, f"{attribute}_layer_norm"), attend))
        branches.append((layer.final_layer_norm, partial(self.feed_forward, layer)))
        backs = []
        for norm, branch in branches:
            x, back = self.residual(x, norm, layer.normalize_before, branch)
            backs.append(back)
        return x, backs

    def residual(
        self, x: Tensor, norm: FairseqModule, before: bool, branch: Branch
    ) -> tuple[Tensor, Back]:
        """x + branch(norm(x)), or norm(x + branch(x))."""
        if before:
            normed, back_norm = self.layer_norm(x, norm)
            branched, back_branch = branch(normed)
            total = out = x + branched
        else:
            branched, back_branch = branch(x)
            total = x + branched
            out, back_norm = self.layer_norm(total, norm)

        def back(passed: Tensor) -> Tensor:
            passed = passed if before else back_norm(passed)
            of_x, of_branched = self.rules.add(x, branched, passed)
            of_branch = back_branch(of_branched)
            if of_branch is None:
                return self.rules.unchanged(x, total, passed)
            return of_x + (back_norm(of_branch) if before else of_branch)

        return out, back

    def layer_norm(self, x: Tensor, module: FairseqModule) -> tuple[Tensor, Back]:
        weight, bias = wide(module.weight), wide(module.bias)
        out = F.layer_norm(x, x.shape[-1:], weight, bias, module.eps)
        return out, partial(self.rules.layer_norm, x, weight, bias, module.eps)

    def feed_forward(self, layer: FairseqModule, x: Tensor) -> tuple[Tensor, Back]:
        first, second = _parameters(layer.fc1), _parameters(layer.fc2)
        unit = F.linear(x, *first)
        inner = layer.activation_fn(unit)
        out = F.linear(inner, *second)
        return out, partial(self.rules.feed_forward, (x, unit, inner, out), first, second)

    def attention(
        self, name: Name, module: FairseqModule, x: Tensor
    ) -> tuple[Tensor, Callable[[Tensor], Tensor | None]]:
        """Self-attention, or source–target attention, which adds to the relevance of its memory."""
        kind, _ = name
        heads = head_count(module)
        weight, bias = _widened(out_weight(module), out_bias(module))
        if not weight.any():  # no head at all, or closed gates on all: a constant
            return bias.expand_as(x), partial(self.no_heads, name, heads)
        seen = x if KINDS[kind].self_attention else self.encoded
        mask = _causal(self.padding[:, : x.shape[1]]) if kind == "decoder" else self.src_mask
        maps = [_parameters(projection) for projection in projections(module)]
        mapped = [
            F.linear(read, *parameters)
            for read, parameters in zip((x, seen, seen), maps, strict=True)
        ]  # (B, T, H·D)
        queries = mapped[0] * query_scale(module)
        q, k, v = (
            part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in (queries, *mapped[1:])
        )  # (B, H, T, D)
        weights = (q @ k.transpose(-2, -1)).masked_fill(mask, float("-inf")).softmax(-1)
        context = (weights @ v).transpose(1, 2).flatten(-2)
        out = F.linear(context, weight, bias)

        def back(passed: Tensor) -> Tensor:
            of_context = self.rules.linear(context, out, weight, bias, passed)
            if not self.only_source:
                relevance = self.rules.relevance(context, of_context)
                self.heads[name].append(head_shares(_by_head(relevance, heads)))
            rows = passed.shape[2]
            keys = rows if seen is x else seen.shape[1]
            of_heads = self.rules.attention(
                q[:, :, :rows],
                k[:, :, :keys],
                v[:, :, :keys],
                weights[:, :, :rows, :keys],
                _by_head(of_context, heads),
            )
            of_q, of_k, of_v = (
                None if part is None else part.transpose(2, 3).flatten(-2) for part in of_heads
            )  # (B, P, T, H·D)
            if of_q is not None:
                of_q = self.rules.unchanged(mapped[0], queries, of_q)
            if seen is x:
                return self.back_maps(x, mapped, maps, (of_q, of_k, of_v))
            self.memory += self.back_maps(seen, mapped[1:], maps[1:], (of_k, of_v))
            return self.back_maps(x, mapped[:1], maps[:1], (of_q,))

        return out, back

    def no_heads(self, name: Name, count: int, relevance: Tensor) -> None:
        """The way back from an attention that returns its bias: it ends there."""
        self.heads[name].append(relevance.new_zeros(*relevance.shape[:2], count))

    def back_maps(
        self,
        x: Tensor,
        mapped: Sequence[Tensor],
        maps: Sequence[Parameters],
        passed: Sequence[Tensor | None],
    ) -> Tensor:
        """From queries, keys and values, or some of them, to what they are projected from.

        As from a single linear map. What is passed is (B, P, T, H·D) each; None stands for zeros.
        """
        outputs, weights, biases, of_outputs = [], [], [], []
        for y, (weight, bias), of_y in zip(mapped, maps, passed, strict=True):
            if of_y is not None:
                outputs.append(y)
                weights.append(weight)
                biases.append(bias)
                of_outputs.append(of_y)
        if not outputs:
            return torch.zeros_like(x[:, None, :1])  # broadcast
        y, of_all = torch.cat(outputs, dim=-1), torch.cat(of_outputs, dim=-1)
        return self.rules.linear(x, y, torch.cat(weights), torch.cat(biases), of_all)


def _by_head(of_context: Tensor, heads: int) -> Tensor:
    """(B, P, T, H·D) → (B, P, H, T, D)."""
    return of_context.unflatten(-1, (heads, -1)).transpose(2, 3)


def _widened(weight: Tensor, bias: Tensor | None) -> Parameters:
    """Weight and bias of a linear map; no bias is one of zeros."""
    weight = wide(weight)
    return weight, weight.new_zeros(len(weight)) if bias is None else wide(bias)


def _parameters(module: FairseqModule) -> Parameters:
    return _widened(module.weight, module.bias)


def _batch_first(states: Tensor) -> Tensor:
    """(T, B, C) → (B, T, C)."""
    return wide(states.transpose(0, 1))


def _causal(padding: Tensor) -> Tensor:
    """What the decoder's rows must not see: padding and what comes later, (B, 1, T, T)."""
    size = padding.shape[1]
    future = torch.ones(size, size, dtype=torch.bool, device=padding.device).triu(1)
    return (future | padding[:, None])[:, None]
