"""Means over tokens of each category."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fairseq_normalign.runs.joins import Gathered


def memberships(categories: Tensor, number: int) -> Tensor:
    """1 where a token is of a category, (B, T, K+1) for K categories and overall, the last one.

    Args:
        categories: of each token, from 0; -1 for padding, (B, T).
    """
    of_category = categories.unsqueeze(-1) == torch.arange(number, device=categories.device)
    of_any = categories.ge(0).unsqueeze(-1)
    return torch.cat([of_category, of_any], dim=-1).double()


def add_means(sums: Gathered, name: str, values: Tensor, categories: Tensor, number: int) -> None:
    """Adds a batch to what the means of some quantities need, by category and overall.

    Args:
        values: of layers, quantities and tokens, (L, Q, B, T).
        categories: of each token, from 0; -1 for padding, (B, T).
        number: of categories.
    """
    members = memberships(categories, number)  # (B, T, K+1)
    counts = members.sum(1)  # (B, K+1)
    by_sentence = torch.einsum("lqbt,btk->lqbk", values.double(), members)
    sums.add(f"{name}.micro.sum", by_sentence.sum(2).cpu().numpy())
    macro = (by_sentence / counts.clamp(min=1)).sum(2)
    sums.add(f"{name}.macro.sum", macro.cpu().numpy())
    sums.add(f"{name}.tokens.sum", counts.sum(0).long().cpu().numpy())
    sums.add(f"{name}.sentences.sum", counts.gt(0).sum(0).cpu().numpy())
    of_tokens = values.transpose(0, 1)[:, :, categories >= 0].flatten(1)  # (Q, L·N)
    if of_tokens.shape[1]:
        sums.add(f"{name}.low", of_tokens.amin(1).cpu().numpy())
        sums.add(f"{name}.high", of_tokens.amax(1).cpu().numpy())


def micro(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """Means over all tokens, (L, Q, K+1); nan where there are none."""
    return divided(arrays[f"{name}.micro.sum"], arrays[f"{name}.tokens.sum"])


def macro(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """Means over a sentence, then over those that have any (Kobayashi et al., 2021); as micro."""
    return divided(arrays[f"{name}.macro.sum"], arrays[f"{name}.sentences.sum"])


def divided(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
