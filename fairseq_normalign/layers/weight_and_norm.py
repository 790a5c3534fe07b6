"""What f(x) does to the length of vectors (Kobayashi et al., 2020, §4 and appendices).

Shapes: B batch, H heads, T queries, S keys, C model width, D head width, K categories of tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from fairseq_normalign.attention.contributions import Recorded


def singular_values(
    value_weight: Tensor,
    value_bias: Tensor | None,
    out_weight: Tensor,
    out_bias: Tensor | None = None,
) -> Tensor:
    """Singular values of f as a linear map of (x, 1) to (f(x), 1), in falling order, (D+1,).

    With its biases, f(x) = W_O (W_V x + b_V) + b_O is affine; on vectors with a 1 behind them it is
    linear:

        [W_O  b_O]   [W_V  b_V]
        [ 0    1 ] · [ 0    1 ]

    Only D+1 of the singular values are not 0, and they are those of the product of the triangular
    factors of both matrices, which is small.

    Args:
        value_weight: W_V of a head, (D, C); or of all of them, (H·D, C).
        value_bias: b_V, (D,).
        out_weight: W_O of the same, (C, D).
        out_bias: b_O, (C,), where it belongs to f.
    """
    dtype = torch.promote_types(value_weight.dtype, torch.float32)
    to_values = _affine(value_weight.to(dtype), value_bias)  # (D+1, C+1)
    to_output = _affine(out_weight.to(dtype), out_bias)  # (C+1, D+1)
    _, left = torch.linalg.qr(to_output)
    _, right = torch.linalg.qr(to_values.t())
    return torch.linalg.svdvals(left @ right.t())


def _affine(weight: Tensor, bias: Tensor | None) -> Tensor:
    """[[W, b], [0, 1]]."""
    matrix = functional.pad(weight, (0, 1, 0, 1))
    if bias is not None:
        matrix[:-1, -1] = bias.to(weight.dtype)
    matrix[-1, -1] = 1
    return matrix


def expansion_rate(singular: Tensor, width: int) -> float:
    """√(Σ σ² / (C+1)): how much longer f makes a vector (x, 1) of any direction, on average.

    Args:
        singular: see :func:`singular_values`.
        width: of x, C.
    """
    return float((singular.double().square().sum() / (width + 1)).sqrt())


def received_weights(recorded: Recorded, queries: Tensor) -> Tensor:
    """The weight that each key gets, mean over the queries of its sentence, (B, H, S).

    Args:
        queries: 1 for tokens and 0 for padding, (B, T).
    """
    dtype = torch.promote_types(recorded.weights.dtype, torch.float32)
    shares = queries.to(dtype) / queries.sum(1, keepdim=True)
    return torch.einsum("bhts,bt->bhs", recorded.weights.to(dtype), shares)
