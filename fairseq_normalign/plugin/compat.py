"""What keeps fairseq from running on today's PyTorch, put right when the plugin is imported."""

from __future__ import annotations

from fairseq.modules.transformer_layer import TransformerEncoderLayerBase


def disable_fused_encoder_layers() -> None:
    """Keeps fairseq 0.12.2 from PyTorch's fused encoder layer, whose arguments have changed since: padding fails.

    It would also hide attention weights. Later versions do not call it any more; there, this changes nothing.
    """
    TransformerEncoderLayerBase.can_use_fastpath = property(lambda layer: False, lambda layer, value: None)
