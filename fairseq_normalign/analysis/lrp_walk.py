"""Relevance of heads and tokens: walks a fairseq encoder-decoder Transformer from its logits back
to its embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.lrp_rules import RULES, head_shares
from fairseq_normalign.host.attention import attentions, layers_of, refuse_unsupported
from fairseq_normalign.host.recorder import evaluation_mode

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

    heads: dict[
        tuple[str, int], Tensor
    ]  # (kind, layer from 0) → share of each head in its layer, (B, P, H)
    source: Tensor  # of source tokens, (B, P, S)
    prefix: Tensor  # of the decoder's inputs, the start mark first, (B, P, T)
    totals: dict[
        str, Tensor
    ]  # at the input of each layer, such as decoder.1, and of the output layer, (B, P)


Back = Callable[
    [Tensor], Tensor
]  # relevance of an output → that of the input; None if the output is a constant


class _Walk:
    """One way back through a model: a forward pass's states in, relevance out.

    A layer's inside is computed again from its input, when its turn comes: what is kept is small.
    """

    def __init__(self, rules: str, memory: Tensor):
        self.rules, self.memory = (
            RULES[rules],
            memory,
        )  # relevance of the encoder's output so far, (B, P, S, C)
        self.heads: dict[tuple[str, int], Tensor] = {}
        self.totals: dict[str, Tensor] = {}

    def back_linear(self, x: Tensor, relevance: Tensor, *modules: nn.Module) -> Tensor:
        """From linear maps of the same input, as from a single one."""
        parameters = [_parameters(module) for module in modules]
        weight, bias = (
            parameters[0] if len(modules) == 1 else map(torch.cat, zip(*parameters, strict=True))
        )
        return self.rules.linear(x, weight, bias, relevance)

    def layer_norm(self, x: Tensor, module: nn.Module) -> tuple[Tensor, Back]:
        weight, bias = _wide(module.weight), _wide(module.bias)
        out = F.layer_norm(x, x.shape[-1:], weight, bias, module.eps)
        return out, partial(self.rules.layer_norm, x, weight, bias, module.eps)

    def feed_forward(self, layer: nn.Module, x: Tensor) -> tuple[Tensor, Back]:
        inner = layer.activation_fn(F.linear(x, *_parameters(layer.fc1)))

        def back(relevance: Tensor) -> Tensor:
            return self.back_linear(x, self.back_linear(inner, relevance, layer.fc2), layer.fc1)

        return F.linear(inner, *_parameters(layer.fc2)), back

    def attention(
        self,
        name: tuple[str, int],
        module: nn.Module,
        mask: Tensor,
        x: Tensor,
        memory: Tensor | None = None,
    ) -> tuple[Tensor, Back]:
        """Self-attention, or source–target attention to a memory, whose relevance is added to what
        it has.

        Args:
            mask: what is not to be seen, (B or 1, 1, T or 1, S).
        """
        weight, bias = _parameters(module.out_proj)
        if not weight.any():  # no head at all, or closed gates on all
            return bias.expand_as(x), partial(self.no_heads, name, module.num_heads)
        seen = x if memory is None else memory
        projections = module.q_proj, module.k_proj, module.v_proj
        q, k, v = (
            F.linear(y, *_parameters(projection))
            .unflatten(-1, (module.num_heads, -1))
            .transpose(1, 2)  # (B, H, T, D)
            for y, projection in zip((x, seen, seen), projections, strict=True)
        )
        q = q * module.scaling
        weights = (
            (q @ k.transpose(-2, -1)).masked_fill(mask, float("-inf")).softmax(-1)
        )  # (B, H, T, S)
        context = (weights @ v).transpose(1, 2).flatten(-2)

        def back(relevance: Tensor) -> Tensor:
            by_head = self.back_linear(context, relevance, module.out_proj).unflatten(
                -1, (module.num_heads, -1)
            )
            by_head = by_head.transpose(2, 3)  # (B, P, H, T, D)
            self.heads[name] = head_shares(by_head)
            found = list(
                zip(self.rules.attention(q, k, v, weights, by_head), projections, strict=True)
            )
            if memory is None:
                return self.back_projections(x, found)
            self.memory += self.back_projections(memory, found[1:])
            return self.back_projections(x, found[:1])

        return F.linear(context, weight, bias), back

    def back_projections(self, x: Tensor, found: list[tuple[Tensor | None, nn.Module]]) -> Tensor:
        """From queries, keys and values, or some of them, (B, P, H, T, D) each, to what they are
        projected from."""
        found = [
            (part.transpose(2, 3), projection) for part, projection in found if part is not None
        ]
        if not found:
            return torch.zeros_like(x).unsqueeze(1)  # P = 1: broadcast
        parts, projections = zip(*found, strict=True)
        return self.back_linear(x, torch.cat(parts, dim=3).flatten(-2), *projections)

    def no_heads(self, name: tuple[str, int], count: int, relevance: Tensor) -> None:
        """The way back from an attention that returns its bias."""
        self.heads[name] = relevance.new_zeros(*relevance.shape[:2], count)

    def residual(
        self,
        x: Tensor,
        norm: nn.Module,
        before: bool,
        branch: Callable[[Tensor], tuple[Tensor, Back]],
    ) -> tuple[Tensor, Back]:
        """x + branch(norm(x)), or norm(x + branch(x))."""
        normed, back_normed = self.layer_norm(x, norm) if before else (x, None)
        branched, back_branch = branch(normed)
        out, back_out = (x + branched, None) if before else self.layer_norm(x + branched, norm)

        def back(relevance: Tensor) -> Tensor:
            relevance = relevance if before else back_out(relevance)
            of_x, of_branch = self.rules.add(x, branched, relevance)
            of_branch = back_branch(of_branch)
            if of_branch is None:
                return relevance
            return of_x.add_(back_normed(of_branch) if before else of_branch)

        return out, back

    def layer(
        self,
        side: str,
        index: int,
        layer: nn.Module,
        x: Tensor,
        masks: Sequence[Tensor],
        memory: Tensor | None,
    ) -> tuple[Tensor, list[Back]]:
        """A layer's output, and the ways back through its parts, the last one first."""
        branches = [
            (
                layer.self_attn_layer_norm,
                partial(self.attention, (side, index), layer.self_attn, masks[0]),
            )
        ]
        if memory is not None:
            cross = partial(
                self.attention, ("cross", index), layer.encoder_attn, masks[1], memory=memory
            )
            branches.append((layer.encoder_attn_layer_norm, cross))
        branches.append((layer.final_layer_norm, partial(self.feed_forward, layer)))
        backs = []
        for norm, branch in branches:
            x, back = self.residual(x, norm, layer.normalize_before, branch)
            backs.insert(0, back)
        return x, backs

    def decoder(
        self,
        decoder: nn.Module,
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
        self, encoder: nn.Module, states: list[Tensor], mask: Tensor, of_prefix: Tensor
    ) -> Tensor:
        """From the encoder's output, whose relevance is in ``memory``, to the first layer's
        input."""
        for cut, relevance in self.stack("encoder", encoder, states, [mask], None, self.memory):
            self.totals[cut] = relevance.sum((2, 3)) + of_prefix
        return relevance

    def stack(
        self,
        side: str,
        stack: nn.Module,
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


def _parameters(module: nn.Module) -> tuple[Tensor, Tensor]:
    """Weight and bias of a linear map."""
    weight = _wide(module.weight)
    return weight, weight.new_zeros(len(weight)) if module.bias is None else _wide(module.bias)


def _refuse(model: nn.Module) -> None:
    """All that the walk does not support, at once."""
    name = type(model).__name__
    for side in ("encoder", "decoder"):
        if not layers_of(getattr(model, side, None)):
            raise InputError(
                f"{name} has no {side} of layers; relevance is for encoder-decoder Transformers"
            )
    found = attentions(model)
    for kind, side in (("encoder", "encoder"), ("decoder", "decoder"), ("cross", "decoder")):
        for index in range(len(layers_of(getattr(model, side)))):
            if (kind, index) not in found:
                raise InputError(
                    f"{name} has no {kind} attention in layer {index + 1}; relevance passes "
                    "attention only"
                )
            refuse_unsupported((kind, index), found[kind, index])
    parts = [model.decoder, *layers_of(model.encoder), *layers_of(model.decoder)]
    options = {
        flag
        for part in parts
        for name, flag in UNSUPPORTED.items()
        if getattr(part, name, None) is not None
    }
    options |= {
        "--cross-self-attention" for part in parts if getattr(part, "cross_self_attention", False)
    }
    if options:
        raise InputError(
            f"{name} was built with {', '.join(sorted(options))}, which relevance does not pass"
        )


def propagate(
    model: nn.Module,
    src_tokens: Tensor,
    prev_output_tokens: Tensor,
    *,
    pad: int,
    rules: str = "voita",
    pooled: bool = False,
    start: str = "top",
    targets: Tensor | None = None,
    positions: Sequence[int] | None = None,
) -> Relevance:
    """Relevance of heads and tokens for what the model predicts, teacher-forced; the decoder's
    padding is on the right.

    Every target position is a prediction of its own (P = T), or all of a sentence start together,
    with equal parts of 1 (``pooled``, P = 1): much cheaper, but relevance of different signs
    cancels, and rescaling sees the sum. Padding neither starts nor receives relevance.

    Args:
        src_tokens: (B, S).
        prev_output_tokens: what the decoder reads, (B, T).
        rules: a name in ``heads.relevance.RULES``.
        start: which logit starts: ``top``, the highest one, or ``reference``, that of the token in
            ``targets``, (B, T).
        positions: the target positions to start from, ascending; all of them by default.
    """
    assert start == "top" or targets is not None
    _refuse(model)
    with torch.no_grad(), evaluation_mode(model):
        src_padding, padding = src_tokens.eq(pad), prev_output_tokens.eq(pad)
        encoder_out = model.encoder(
            src_tokens, src_lengths=(~src_padding).sum(1), return_all_hiddens=True
        )
        features, extra = model.decoder.extract_features(
            prev_output_tokens, encoder_out=encoder_out
        )
        tokens = model.decoder.output_layer(features).argmax(-1) if start == "top" else targets
        started = _started(
            RULES[rules], model.decoder.output_projection, _wide(features), tokens, ~padding
        )
        src_states, states, (memory,) = (
            [_wide(state.transpose(0, 1)) for state in found]
            for found in (
                encoder_out["encoder_states"],
                extra["inner_states"],
                encoder_out["encoder_out"],
            )
        )
        src_mask, mask = src_padding[:, None, None], _causal(padding)
        walks, prefixes = [], []
        for relevance in _by_prediction(started, ~padding, positions, pooled):
            rows = relevance.shape[2]  # later ones play no part
            walk = _Walk(
                rules, memory.new_zeros(len(memory), relevance.shape[1], *memory.shape[1:])
            )
            masks = mask[..., :rows, :rows], src_mask
            prefix = walk.decoder(
                model.decoder, [state[:, :rows] for state in states], masks, memory, relevance
            )
            prefixes.append(F.pad(prefix.sum(-1), (0, padding.shape[1] - rows)))
            walks.append(walk)
        walk, prefix = _joined(rules, walks), torch.cat(prefixes, dim=1)
        source = walk.encoder(model.encoder, src_states, src_mask, prefix.sum(-1)).sum(-1)
    return Relevance(
        {name: walk.heads[name] for name in attentions(model)}, source, prefix, walk.totals
    )


def _causal(padding: Tensor) -> Tensor:
    """What the decoder's rows must not see: padding and what comes later, (B, 1, T, T)."""
    size = padding.shape[1]
    future = torch.ones(size, size, dtype=torch.bool, device=padding.device).triu(1)
    return (future | padding[:, None])[:, None]


def _started(
    rules, projection: nn.Module, features: Tensor, tokens: Tensor, real: Tensor
) -> Tensor:
    """Relevance of the output layer's input if each token's logit has 1, (B, T, C); 0 for
    padding."""
    bias = 0.0 if projection.bias is None else _wide(projection.bias)[tokens]
    return rules.logit(features, _wide(projection.weight)[tokens], bias) * real.unsqueeze(-1)


def _by_prediction(
    relevance: Tensor, real: Tensor, positions: Sequence[int] | None, pooled: bool
) -> Iterator[Tensor]:
    """(B, T, C) → (B, P, T, C): each position a prediction of its own, or all of them together.

    Predictions come in groups, with as many rows as the last one of a group can see.
    """
    chosen = torch.as_tensor(
        range(relevance.shape[1]) if positions is None else positions, device=relevance.device
    )
    if pooled:
        out = torch.zeros_like(relevance)
        out[:, chosen] = relevance[:, chosen] / real[:, chosen].sum(1).clamp(min=1)[:, None, None]
        yield out.unsqueeze(1)
        return
    for group in chosen.split(max(GROUP, -(-len(chosen) // GROUPS))):
        out = relevance.new_zeros(
            len(relevance), len(group), int(group[-1]) + 1, relevance.shape[-1]
        )
        out[:, torch.arange(len(group)), group] = relevance[:, group]
        yield out


def _joined(rules: str, walks: list[_Walk]) -> _Walk:
    """Walks of some predictions each as one of all of them."""
    joined = _Walk(rules, torch.cat([walk.memory for walk in walks], dim=1))
    joined.heads, joined.totals = (
        {
            name: torch.cat([getattr(walk, part)[name] for walk in walks], dim=1)
            for name in getattr(walks[0], part)
        }
        for part in ("heads", "totals")
    )
    return joined
