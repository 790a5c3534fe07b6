"""The states that an alignment head reads."""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fairseq_normalign.attention.recorder import evaluation_mode
from fairseq_normalign.attention.states import batch_first, before_each
from fairseq_normalign.host.attention_modules import attentions, layers_of
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing


class HeadStates(NamedTuple):
    """What a head reads of a batch, padded on the right."""

    queries: Tensor  # (B, T, Q): a row for each step of the decoder, 0 behind the last one
    keys: Tensor  # (B, S, K)
    padding: Tensor  # (B, S): true where a source has ended


def head_states(forcing: TeacherForcing, pairs: list[Pair]) -> HeadStates:
    """The states of a batch from one forced pass.

    Queries are what the decoder's first layer reads, and the input of each layer's source–target
    attention: the state after self-attention and its layer norm. Keys are what the encoder's first
    layer reads, and the encoder's output. Those of a token are put behind each other.
    """
    forcing.check_lengths(pairs)
    queries: list[Tensor] = []
    keys: list[Tensor] = []

    def embedded_source(module, args, kwargs):
        keys.append(batch_first(args[0] if args else kwargs["x"]))

    def embedded_target(module, args, kwargs):
        queries.append(batch_first(args[0] if args else kwargs["x"]))

    def attended(module, args, kwargs):
        queries.append(batch_first(kwargs["query"]))
        if len(keys) == 1:
            keys.append(batch_first(kwargs["key"]))

    model = forcing.model
    cross = [module for (kind, _), module in attentions(model).items() if kind == "cross"]
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(evaluation_mode(model))
        stack.enter_context(before_each(layers_of(model.encoder)[:1], embedded_source))
        stack.enter_context(before_each(layers_of(model.decoder)[:1], embedded_target))
        stack.enter_context(before_each(cross, attended))
        forcing.forward(pairs)
    sources = _padding([len(pair.source.tokens) for pair in pairs])
    targets = _padding([len(pair.target.tokens) for pair in pairs])
    read = torch.cat(queries, dim=-1).float()
    read = read.masked_fill(targets.unsqueeze(-1).to(read.device), 0)
    return HeadStates(read, torch.cat(keys, dim=-1).float(), sources.to(read.device))


def _padding(lengths: list[int]) -> Tensor:
    """True behind the end of each sentence, (B, longest)."""
    return torch.arange(max(lengths)) >= torch.tensor(lengths).unsqueeze(1)


def fingerprint(model: nn.Module) -> str:
    """A number of the model's parameters, the same in single and half precision."""
    digest = hashlib.sha256()
    for name, values in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(values.shape)}".encode())
        digest.update(values.detach().cpu().half().numpy().tobytes())
    return digest.hexdigest()[:32]
