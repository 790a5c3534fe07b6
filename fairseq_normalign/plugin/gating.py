"""Gates on the heads of a fairseq Transformer, as a scale on the columns of W_O."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.head_scores import CLOSE_RULES
from fairseq_normalign.heads.pruning import evaluation_gates, open_probabilities, sample_gates
from fairseq_normalign.host.attention_modules import (
    Name,
    attentions,
    head_count,
    out_projection,
    replace_out_projection,
    scale_heads,
)

# Chosen by experiment; see docs/pruning.md.
INITIAL = 2.0
LR_SCALE = 100.0


class GatedProjection(nn.Module):
    """W_O whose columns are scaled by a gate for each head: g_h · head_h W_O^h.

    Gates are shared by sentences and positions, so this is all that a gate does, and PyTorch's
    fused attention, which takes the matrix, needs to know nothing of it. In training, each use of
    ``weight`` draws new gates: one draw for each forward pass.

    The optimiser sees log α / lr_scale and the gradient of log α itself, so that its steps on log α
    are ``lr_scale`` times as long. This holds for all optimisers whose steps do not depend on the
    size of a parameter: SGD, Adam and most others. Where steps are proportional to that size, as in
    LAMB and in Adafactor with ``--scale-parameter``, the scale cancels; weight decay, too, pulls
    log α to 0 as fast as it does other parameters, and not ``lr_scale`` times as fast.

    The state dict has ``weight`` and ``bias`` under fairseq's names, and ``log_alpha``, which a
    plain checkpoint lacks: then gates start anew. It is in double precision: multiplied by the
    scale, and divided by it on loading, the parameter comes back bit by bit, and a training that is
    resumed goes on as if it had not stopped.
    """

    def __init__(
        self, projection: nn.Linear, heads: int, *, initial: float, lr_scale: float, close_rule: str
    ):
        super().__init__()
        # Not by its setter, as the name is that of a property, below.
        self._parameters["weight"] = cast(nn.Parameter, projection.weight)
        self.bias = projection.bias
        self.lr_scale, self.close_rule = lr_scale, close_rule
        self.scaled_log_alpha = nn.Parameter(torch.full((heads,), initial / lr_scale))
        self.noise: Tensor | None = None  # of the last draw

    @property
    def log_alpha(self) -> Tensor:
        """(H,), in float32 at least.

        Its gradient arrives at the parameter as it is, not multiplied by the scale.
        """
        wide = torch.promote_types(self.scaled_log_alpha.dtype, torch.float32)
        scaled = self.scaled_log_alpha.to(wide)
        return scaled + (self.lr_scale - 1) * scaled.detach()

    def gate_values(self) -> Tensor:
        """The gates at test time, (H,)."""
        return evaluation_gates(self.log_alpha, self.close_rule)

    def open_probabilities(self) -> Tensor:
        """P(g ≠ 0), (H,)."""
        return open_probabilities(self.log_alpha)

    @property
    def weight(self) -> Tensor:
        """W_O with its gates, (C, H·D)."""
        self.noise = torch.rand_like(self.log_alpha) if self.training else None
        return self.last_weight

    @property
    def last_weight(self) -> Tensor:
        """The same as when it was last used, without a new draw."""
        if self.noise is None:
            gates = self.gate_values()
        else:
            gates = sample_gates(self.log_alpha, self.noise)
        return scale_heads(cast(Tensor, self._parameters["weight"]), gates)

    def forward(self, heads: Tensor) -> Tensor:
        return functional.linear(heads, self.weight, self.bias)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        scaled = destination.pop(f"{prefix}scaled_log_alpha")
        destination[f"{prefix}log_alpha"] = scaled.double() * self.lr_scale

    def _load_from_state_dict(self, state_dict, prefix, *args):
        scaled = self.scaled_log_alpha
        if f"{prefix}log_alpha" in state_dict:
            scaled = state_dict.pop(f"{prefix}log_alpha").double() / self.lr_scale
        own = {f"{prefix}scaled_log_alpha": scaled}
        super()._load_from_state_dict({**state_dict, **own}, prefix, *args)


class Steering(nn.Module):
    """A factor on λ that grows while too many heads are open and shrinks while too few are.

    It lives in the model, whose checkpoints fairseq saves, so that a resumed training goes on with
    it; as a number, not as a buffer, which training in half precision would round.
    """

    RATE = 1.005  # by which the factor changes with an update
    LIMIT = 1000.0  # how large, and how small, it becomes

    def __init__(self):
        super().__init__()
        self.factor, self.updates, self.steered = 1.0, 0, -1

    def set_num_updates(self, updates: int) -> None:
        """Called by fairseq before each batch."""
        self.updates = updates

    def steer(self, excess: float) -> None:
        """Moves the factor, one step at most for each update, however many batches it has.

        ``excess`` is open heads minus wanted ones.
        """
        if self.updates == self.steered or excess == 0:
            return
        self.steered = self.updates
        change = self.RATE if excess > 0 else 1 / self.RATE
        factor = self.factor * change
        self.factor = min(self.LIMIT, max(1 / self.LIMIT, factor))

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.factor, dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        self.factor = state.item()

    def _load_from_state_dict(self, state_dict, prefix, *args):
        own = {f"{prefix}_extra_state": self.get_extra_state()}
        super()._load_from_state_dict({**own, **state_dict}, prefix, *args)


def gate_heads(
    model: nn.Module,
    kinds: Collection[str],
    *,
    initial: float = INITIAL,
    lr_scale: float = LR_SCALE,
    close_rule: str = CLOSE_RULES[0],
) -> None:
    """Puts gates on all heads of some kinds of attention."""
    if lr_scale <= 0:
        raise InputError(f"--gate-lr-scale {lr_scale}: must be above 0")
    model.steering = Steering()
    for (kind, layer), attention in attentions(model).items():
        heads = head_count(attention)
        if kind not in kinds or heads == 0:
            continue
        projection = out_projection(attention)
        if type(projection) is not nn.Linear or projection._forward_pre_hooks:
            raise InputError(
                f"{kind} attention of layer {layer + 1}: no gates with quantization noise"
            )
        gated = GatedProjection(
            projection, heads, initial=initial, lr_scale=lr_scale, close_rule=close_rule
        )
        replace_out_projection(attention, gated)


def gates(model: nn.Module) -> dict[Name, GatedProjection]:
    """The gated projections of a model by (kind, layer from 0)."""
    gated = {}
    for name, attention in attentions(model).items():
        projection = out_projection(attention)
        if isinstance(projection, GatedProjection):
            gated[name] = projection
    return gated
