"""ALTI+ against a slow twin: sums over paths, layer by layer, in the paper's notation."""

from functools import partial

import pytest
import torch

from fairseq_normalign.attention.alti import Rollout, contributions
from fairseq_normalign.attention.block import Block
from fairseq_normalign.attention.contributions import Recorded

B, H, T, S, C, LAYERS = 2, 2, 3, 4, 6, 3
D = C // H

assert_close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-6)


def make_blocks() -> dict:
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(0))
    blocks = {}
    for layer in range(LAYERS):
        for kind, queries, keys in (("encoder", S, S), ("decoder", T, T), ("cross", T, S)):
            scores = draw(B, H, queries, keys)
            if kind == "decoder":
                scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
            recorded = Recorded(scores.softmax(-1), draw(B, H, keys, D), draw(H, D, C), draw(C))
            blocks[kind, layer] = Block(recorded, draw(B, queries, C), None, kind != "cross")
    return blocks


def slow_encoder(matrices: list, b: int, i: int, j: int) -> float:
    """The share of token j in state i above all layers: the sum over what stands between."""
    if not matrices:
        return float(i == j)
    *below, top = matrices
    return sum(float(top[b, i, k]) * slow_encoder(below, b, k, j) for k in range(top.shape[2]))


def slow_origin(blocks: dict, layer: int, b: int, t: int) -> tuple[list, list]:
    """Row t of M^l: what it has of each source token, and of each token of the prefix."""
    if layer < 0:
        return [0.0] * S, [float(t == i) for i in range(T)]
    own = contributions(blocks["decoder", layer])[b]
    cross = contributions(blocks["cross", layer])[b]
    encoder = [contributions(blocks["encoder", each]) for each in range(LAYERS)]
    source, target = [0.0] * S, [0.0] * T
    for s in range(S):
        for k in range(S):
            source[s] += float(cross[t, k]) * slow_encoder(encoder, b, k, s)
    for i in range(T):
        step = float(cross[t, S]) * float(own[t, i])
        below_source, below_target = slow_origin(blocks, layer - 1, b, i)
        source = [sum(pair) for pair in zip(source, (step * x for x in below_source), strict=True)]
        target = [sum(pair) for pair in zip(target, (step * x for x in below_target), strict=True)]
    return source, target


def test_the_encoders_rollout_adds_up_all_paths():
    blocks = make_blocks()
    matrices = [contributions(blocks["encoder", layer]) for layer in range(LAYERS)]
    rollout = Rollout(blocks).encoder
    for b in range(B):
        for i in range(S):
            row = torch.tensor([slow_encoder(matrices, b, i, j) for j in range(S)])
            assert_close(rollout[b, i], row)
    assert_close(rollout.sum(-1), torch.ones(B, S))


def test_shares_of_the_source_are_those_of_the_paper_in_every_layer():
    """Source and prefix are all there is, and no token that was not read yet has a share."""
    blocks = make_blocks()
    rollout = Rollout(blocks)
    for layer in reversed(range(LAYERS)):
        for t in range(T):
            source, target = slow_origin(blocks, layer, 1, t)
            assert_close(rollout.source(layer)[1, t], torch.tensor(source))
            assert sum(source) + sum(target) == pytest.approx(1, rel=1e-4)
            assert not any(target[t + 1 :])
