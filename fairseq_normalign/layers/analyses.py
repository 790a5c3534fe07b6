"""The five analyses of Kobayashi et al. (2021), by name.

This module imports no PyTorch: ``--help`` reads it.
"""

from __future__ import annotations

# W weights, N norms; RES with the residual, LN with the layer norm.
ANALYSES = ("ATTN-W", "ATTN-N", "ATTNRES-W", "ATTNRES-N", "ATTNRESLN-N")
