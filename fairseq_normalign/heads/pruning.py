"""Gates on heads, and checkpoints without the heads that gates close.

A gate is hard-concrete (Louizos et al., 2018; Voita et al., 2019): a random number g in [0, 1] that
is exactly 0 or exactly 1 with positive probability. Its one parameter log α says how far it is
open; the expected number of open gates is a differentiable function of all of them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import Path

import torch
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import refuse_unwritable
from fairseq_normalign.heads.head_scores import CLOSE_RULES
from fairseq_normalign.host.attention_modules import (
    LOG_ALPHA,
    STEERING,
    State,
    attentions_in,
    count_heads,
    keep_heads,
    log_alphas,
    scale_heads,
)
from fairseq_normalign.host.checkpoint import VARIANT, read_transformer, rename, save
from fairseq_normalign.names import (
    ALL,
    KINDS,
    Head,
    all_heads,
    by_kind,
    format_heads,
    in_stored_order,
    parse_heads,
)
from fairseq_normalign.results.blocks import Cell, Rows, Table
from fairseq_normalign.results.notebook import html_table

TEMPERATURE = 0.33
LOW, HIGH = -0.1, 1.1  # what (0, 1) is stretched to, before it is cut to [0, 1]
EPSILON = 1e-6


def _stretched(share: Tensor) -> Tensor:
    return (share * (HIGH - LOW) + LOW).clamp(0, 1)


def sample_gates(log_alpha: Tensor, uniform: Tensor) -> Tensor:
    """g = clip(s·(h − l) + l, 0, 1) with s = σ((log U − log(1 − U) + log α) / τ).

    U is uniform on (0, 1).
    """
    uniform = uniform.clamp(EPSILON, 1 - EPSILON)
    return _stretched(torch.sigmoid((torch.logit(uniform) + log_alpha) / TEMPERATURE))


def evaluation_gates(log_alpha: Tensor, rule: str = "value") -> Tensor:
    """g = clip(σ(log α)·(h − l) + l, 0, 1): no noise, no temperature.

    A gate may stay between 0 and 1.

    Rule ``value`` takes this as it is: 0 from log α ≤ −2.398. Rule ``paper`` also closes a gate
    that is more often 0 than 1 in training, P(g = 0) > P(g = 1), which is log α < 0.
    """
    gates = _stretched(torch.sigmoid(log_alpha))
    return gates * (log_alpha >= 0) if rule == "paper" else gates


def open_probabilities(log_alpha: Tensor) -> Tensor:
    """P(g ≠ 0) = σ(log α − τ log(−l / h))."""
    return torch.sigmoid(log_alpha - TEMPERATURE * math.log(-LOW / HIGH))


PLAIN_CRITERION = "label_smoothed_cross_entropy"
GATED_CRITERION = f"{PLAIN_CRITERION}_l0"
# What the latter's options begin with that the former does not have.
OF_GATES = ("l0_", "target_heads", "log_relevance", "save_dir", "valid_subset")


class Prunable:
    """A checkpoint of a translation Transformer, gated or not, that heads can be removed from.

    Heads have the names that they had in the model that none was removed from.

    Args:
        close_rule: when a gate counts as closed; by default as in training.
    """

    def __init__(self, path: str, close_rule: str | None = None):
        self.path = path
        self.state, self.options = read_transformer(path)
        self.head_dims = {
            kind: self._option(kind, "embed_dim") // self._option(kind, "attention_heads")
            for kind in KINDS
        }
        self.counts = count_heads(self.state["model"], self.head_dims)
        if not self.counts or any("attn.in_proj_weight" in key for key in self.state["model"]):
            raise InputError(
                f"{path}: checkpoints of fairseq before 0.9 are not supported: no q_proj in them"
            )
        trained = getattr(self.options, "close_rule", None) or CLOSE_RULES[0]
        self.close_rule: str = close_rule or trained
        before = {name: self._option(name[0], "attention_heads") for name in self.counts}
        self.all_heads = all_heads(before)
        self.heads = parse_heads(getattr(self.options, "alive_heads", None) or ALL, self.all_heads)
        # Where they are in the state dict, which counts only those that are there.
        stored = in_stored_order(self.heads, getattr(self.options, "head_order", None))
        self.places = dict(zip(stored, all_heads(self.counts), strict=True))
        by_place = log_alphas(self.state["model"])
        self.log_alphas = {
            head: by_place[place] for head, place in self.places.items() if place in by_place
        }
        gates = evaluation_gates(torch.tensor(list(self.log_alphas.values())), self.close_rule)
        self.closed = set(compress(self.log_alphas, (gates == 0).tolist()))

    def _repr_html_(self) -> str:
        """What a notebook shows: the heads whose gate is not closed."""
        opened = [head for head in self.heads if head not in self.closed]
        name = f"{Path(self.path).name}, {self.megabytes:.1f} MB: "
        return html_table(self.heads_table(opened, "open", name))

    def heads_table(self, heads: Sequence[Head], state: str = "left", name: str = "") -> Table:
        """Which of its heads are left, or open: a row for each attention, a column for a layer."""
        layers = sorted({layer for _, layer in self.counts})
        rows: Rows = []
        counts = []
        for kind in dict.fromkeys(kind for kind, _ in self.counts):
            own = [head for head in heads if head.kind == kind]
            row: list[Cell] = [kind]
            for layer in layers:
                row.append(" ".join(str(head.head + 1) for head in own if head.layer == layer))
            rows.append(row)
            counts.append(f"{kind} {len(own)}")
        title = f"{name}{len(heads)} of {len(self.heads)} heads {state}: {', '.join(counts)}"
        return Table(["attention", *(f"layer {layer + 1}" for layer in layers)], rows, title)

    def _option(self, kind: str, name: str) -> int:
        """An option of the side that an attention belongs to."""
        return getattr(self.options, f"{KINDS[kind].side}_{name}")

    @property
    def megabytes(self) -> float:
        """Size of the model's parameters in MB, without the state of an optimizer."""
        sizes = {}
        for parameter in self.state["model"].values():
            # By address, as some are shared.
            sizes[parameter.data_ptr()] = parameter.numel() * parameter.element_size()
        return sum(sizes.values()) / 1e6

    def open_heads(self) -> list[Head]:
        """All heads but those whose gate is closed."""
        if not self.log_alphas:
            raise InputError(
                f"{self.path}: has no gates that say which heads to remove; pass --keep-top, "
                "--keep or --drop, or a checkpoint trained with --gate-heads"
            )
        if not self.closed:
            lowest = min(self.log_alphas.values())
            raise InputError(
                f"{self.path}: all {len(self.log_alphas)} gates are open (lowest log α "
                f"{lowest:.2f}): nothing to remove; train longer, with a larger --l0-lambda or "
                "--gate-lr-scale, or pass --keep-top N --by gate"
            )
        self._warn_of_missed_target()
        return [head for head in self.heads if head not in self.closed]

    def _warn_of_missed_target(self) -> None:
        """Says if training has left more heads open, or fewer, than it was told to."""
        criterion = (self.state.get("cfg") or {}).get("criterion") or vars(self.options)
        target, opened = criterion.get("target_heads"), len(self.log_alphas) - len(self.closed)
        if target not in (None, opened):
            warnings.warn(
                f"{self.path}: trained with --target-heads {target}, but {opened} gates are open; "
                f"--keep-top {target} --by gate keeps {target}",
                stacklevel=3,
            )

    def top_heads(self, scores: Mapping[Head, float], count: int) -> list[Head]:
        """The heads of highest score, and all that have no score."""
        if not 0 <= count <= len(scores):
            raise InputError(f"--keep-top {count}: there are {len(scores)} heads to choose from")
        ranked = sorted(scores, key=lambda head: (-scores[head], head))
        best = set(ranked[:count])
        return [head for head in self.heads if head in best or head not in scores]

    def write(self, kept: Sequence[Head], output: str) -> None:
        """Writes the checkpoint with these heads alone, their gates folded into W_O."""
        refuse_unwritable(output, self.path)
        folded = fold_gates(self.state["model"], self.close_rule)
        places = [self.places[head] for head in kept]
        self.state["model"] = keep_heads(folded, places, self.head_dims)
        idle = self.closed & set(kept)
        if idle:
            warnings.warn(
                f"{len(idle)} of the heads kept have closed gates: they do nothing", stacklevel=2
            )
        self._warn_of_lost_kinds(kept)
        self.options.alive_heads = format_heads(kept, self.all_heads)
        self.options.gate_heads = self.options.head_order = None
        rename(self.state, self.options, VARIANT)
        self._forget_training()
        save(self.state, output)

    def _warn_of_lost_kinds(self, kept: Sequence[Head]) -> None:
        """Says which kinds of attention lose their last head, as a ranking may do in passing."""
        left = by_kind(kept)
        for kind in by_kind(self.heads):
            if kind not in left:
                blind = ": the decoder no longer sees the source" if kind == "cross" else ""
                warnings.warn(f"no head of {KINDS[kind].title} is left{blind}", stacklevel=3)

    def _forget_training(self) -> None:
        """Drops what belongs to more parameters than are left, and a criterion that needs gates."""
        self.state["last_optimizer_state"] = None
        for average in ("ema", "ema_fp32_params"):
            self.state.get("extra_state", {}).pop(average, None)
        criterion = (self.state.get("cfg") or {}).get("criterion")
        if criterion and criterion["_name"] == GATED_CRITERION:
            plain = {key: criterion[key] for key in criterion if not key.startswith(OF_GATES)}
            self.state["cfg"]["criterion"] = {**plain, "_name": PLAIN_CRITERION}
        if getattr(self.options, "criterion", None) == GATED_CRITERION:
            self.options.criterion = PLAIN_CRITERION


def fold_gates(state: State, rule: str = "value") -> dict[str, Tensor]:
    """The state dict of the ungated model that does what the gated one does at test time.

    W_O^h ← g_h W_O^h.
    """
    folded = {}
    for key, value in state.items():
        if not key.endswith(LOG_ALPHA) and STEERING not in key:
            folded[key] = value
    for _, _, prefix in attentions_in(state):
        if prefix + LOG_ALPHA in state:
            gates = evaluation_gates(state[prefix + LOG_ALPHA].float(), rule)
            key = f"{prefix}out_proj.weight"
            folded[key] = scale_heads(state[key], gates)
    return folded
