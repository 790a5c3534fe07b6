"""An alignment head: an attention of its own on the states of a model that stays as it is.

After Shift-AET (Chen et al., 2020), whose alignment module has queries and keys alone. Its shares
are trained on links, and the translation model never sees them.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional

from fairseq_normalign.attention.recorder import evaluation_mode, stopping_after
from fairseq_normalign.attention.states import hooked, keep_input
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import whole_file
from fairseq_normalign.host.attention_modules import attentions, layers_of
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.host.trust import read_safetensors
from fairseq_normalign.strict_json import parse_json


class AlignmentHead(NamedTuple):
    """The weights of a head: D wide, on queries of the width Q and keys of the width K.

    Keys have no bias: it would add the same to the scores of all keys, and shares would stay.
    """

    query: Tensor  # (D, Q)
    query_bias: Tensor  # (D,)
    key: Tensor  # (D, K)

    @classmethod
    def random(
        cls, queries: int, keys: int, *, width: int, generator: torch.Generator
    ) -> AlignmentHead:
        """A head to begin with: uniform weights as of Glorot and Bengio (2010), halved in variance.

        Args:
            queries: Q.
            keys: K.
            width: D.
        """
        weights = []
        for inputs in (queries, keys):
            bound = math.sqrt(3 / (inputs + width))
            uniform = torch.rand(width, inputs, generator=generator)
            weights.append((2 * uniform - 1) * bound)
        return cls(weights[0], torch.zeros(width), weights[1])


def log_shares(head: AlignmentHead, queries: Tensor, keys: Tensor, padding: Tensor) -> Tensor:
    """log softmax_s((W_q h_t + b_q)ᵀ W_k x_s / √D): the logarithm of each key's share of a query.

    Args:
        queries: h, (B, T, Q).
        keys: x, (B, S, K).
        padding: true where a key is none, (B, S).

    Returns:
        (B, T, S); −∞ for padding.
    """
    projected_queries = queries @ head.query.t() + head.query_bias  # (B, T, D)
    projected_keys = keys @ head.key.t()  # (B, S, D)
    scores = projected_queries @ projected_keys.transpose(1, 2) / math.sqrt(len(head.query))
    return scores.masked_fill(padding.unsqueeze(1), -math.inf).log_softmax(dim=-1)


def with_neighbours(states: Tensor) -> Tensor:
    """Each state, the one before it and the one behind it, (B, T, C) → (B, T, 3 · C).

    Differs from Chen et al. (2020), who take the row that reads a token alone. The row before
    predicts the token, and the row behind knows what follows it. Where there is none, there are
    zeros; so rows of padding must be 0.
    """
    padded = functional.pad(states, (0, 0, 1, 1))
    return torch.cat([states, padded[:, :-2], padded[:, 2:]], dim=-1)


def link_loss(shares: Tensor, links: Tensor, weights: Tensor) -> Tensor:
    """−Σ_t w_t log Σ_{s linked to t} A[t, s] / Σ_t w_t.

    Differs from Chen et al. (2020, Eq. 6) and Garg et al. (2019), who take the mean of log A[t, s]
    over the links of t: they want all pieces of a linked word to have the same share, where one
    piece that has it all is as good.

    Args:
        shares: log A, (B, T, S).
        links: true where there is a link, (B, T, S).
        weights: of each query, (B, T); one that has a weight has a link.
    """
    counting = weights > 0
    linked = shares[counting].masked_fill(~links[counting], -math.inf)
    weight = weights[counting]
    return -(weight * linked.logsumexp(dim=-1)).sum() / weight.sum().clamp(min=1e-9)


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
    model = forcing.model
    cross = [module for (kind, _), module in attentions(model).items() if kind == "cross"]
    with (
        torch.no_grad(),
        evaluation_mode(model),
        hooked(layers_of(model.encoder)[:1], before=keep_input(keys, "x")),
        hooked(layers_of(model.decoder)[:1], before=keep_input(queries, "x")),
        hooked(cross, before=keep_input(queries, "query")),
        hooked(cross[:1], before=keep_input(keys, "key")),
        stopping_after(cross[-1]),
    ):
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


FORMAT = "normalign-aligner-1"
DAMAGED = "not a file of alignment heads, or damaged; use a file that normalign train-aligner wrote"

# Models that were looked at before: a fingerprint costs as much as a small batch.
_fingerprints: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()


class TrainedHead(NamedTuple):
    """A head, and the model whose states it reads."""

    head: AlignmentHead
    model: str  # its fingerprint
    languages: str  # de-en


def write_aligner(
    path: str | Path, trained: Mapping[str, TrainedHead], training: Mapping[str, Any]
) -> None:
    """Writes heads by name.

    Args:
        training: how they were trained, for people.
    """
    tensors: dict[str, Tensor] = {}
    metadata = {"format": FORMAT, "heads": ",".join(trained)}
    for name, (head, model, languages) in trained.items():
        metadata[f"{name}.model"] = model
        metadata[f"{name}.languages"] = languages
        for part, values in head._asdict().items():
            tensors[f"{name}.{part}"] = values.detach().contiguous()
    metadata |= {f"training.{name}": str(value) for name, value in training.items()}
    # One text: several would stand in the file in any order, and the same heads be other bytes.
    stored = {"normalign": json.dumps(metadata, sort_keys=True)}
    with whole_file(path, binary=True) as file:
        file.write(save(tensors, stored))


@functools.lru_cache(maxsize=8)
def _read(path: str, changed: int) -> list[TrainedHead]:
    """The heads of a file, which is read again when it has changed."""
    tensors, stored = read_safetensors(path)
    trained = []
    try:
        metadata = parse_json(stored["normalign"])
        if metadata["format"] != FORMAT:
            raise ValueError
        for name in metadata["heads"].split(","):
            head = AlignmentHead(*[tensors[f"{name}.{part}"] for part in AlignmentHead._fields])
            if not all(part.is_floating_point() and part.isfinite().all() for part in head):
                raise ValueError
            head = AlignmentHead(*[part.float() for part in head])
            model, languages = metadata[f"{name}.model"], metadata[f"{name}.languages"]
            trained.append(TrainedHead(head, str(model), str(languages)))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InputError(f"{path}: {DAMAGED}") from None
    return trained


def head_of(path: str, model: nn.Module) -> AlignmentHead:
    """The head of a file that reads the states of this model."""
    trained = _read(path, Path(path).stat().st_mtime_ns)
    if model not in _fingerprints:
        _fingerprints[model] = fingerprint(model)
    wanted = _fingerprints[model]
    for head, fits, _ in trained:
        if fits == wanted:
            return head
    known = " and ".join(f"{languages} {fits[:8]}" for _, fits, languages in trained)
    raise InputError(
        f"{path}: its heads read the states of other models ({known}), not of this one "
        f"({wanted[:8]}); use the models that it was trained with"
    )


def trained_shares(path: str, forcing: TeacherForcing, pairs: list[Pair]) -> Tensor:
    """The share of each source token for each step of the decoder, (B, T, S)."""
    trained = head_of(path, forcing.model)
    queries, keys, padding = head_states(forcing, pairs)
    read = with_neighbours(queries)
    on_device = AlignmentHead(*[part.to(queries.device) for part in trained])
    return log_shares(on_device, read, keys, padding).exp()
