"""What keeps fairseq from running on today's PyTorch, put right when the plugin is imported."""

from __future__ import annotations

from typing import Any

from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import nn


def disable_fused_encoder_layers() -> None:
    """Keeps fairseq 0.12.2 from PyTorch's fused encoder layer.

    Its arguments have changed since: padding fails.

    It would also hide attention weights. Later versions do not call it any more; there, this
    changes nothing.
    """
    TransformerEncoderLayerBase.can_use_fastpath = property(
        lambda layer: False, lambda layer, value: None
    )


def shrink_copies(layer: Any) -> None:
    """Fits the copies of an encoder layer's attention to its heads.

    fairseq 0.12.2 keeps them for that fused layer.
    """
    if hasattr(layer, "in_proj_weight"):
        q_proj, out_proj = layer.self_attn.q_proj, layer.self_attn.out_proj
        layer.in_proj_weight = nn.Parameter(q_proj.weight.detach().repeat(3, 1))
        layer.in_proj_bias = nn.Parameter(q_proj.bias.detach().repeat(3))
        layer.out_proj_weight = nn.Parameter(out_proj.weight.detach().clone())
