"""States in a plane."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def principal_plane(states: Tensor) -> tuple[np.ndarray, float]:
    """States by their first two principal components, and the share of the variance they have.

    The sign of a component is such that its largest loading is positive.

    Args:
        states: (N, C).

    Returns:
        (N, 2), and the share.
    """
    centred = states.double() - states.double().mean(0)
    u, s, vh = torch.linalg.svd(centred, full_matrices=False)
    signs = vh.gather(1, vh.abs().argmax(1, keepdim=True)).sign().squeeze(1)
    plane = (u * s * signs)[:, :2]
    variance = s.square()
    share = variance[:2].sum() / variance.sum() if variance.sum() > 0 else torch.tensor(0.0)
    return plane.numpy(), float(share)
