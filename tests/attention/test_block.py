"""The decomposition of a block against a slow twin that builds every F_i(x_j)."""

from functools import partial

import pytest
import torch

from fairseq_normalign.attention.block import Block, LayerNorm, mixing_ratios, pair_norms
from fairseq_normalign.attention.contributions import Recorded
from fairseq_normalign.names import ANALYSES

B, H, T, C = 2, 3, 4, 6
D = C // H
EPS = 1e-3

# Sums in single precision, in another order.
assert_close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)


def make_block(
    *, post=True, own=True, causal=False, heads=H, queries=T, keys=T, seed: int = 0
) -> Block:
    random = torch.Generator().manual_seed(seed)
    draw = partial(torch.randn, generator=random)
    scores = draw(B, heads, queries, keys)
    if causal:
        scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
    recorded = Recorded(scores.softmax(-1), draw(B, heads, keys, D), draw(heads, D, C), draw(C))
    layer_norm = LayerNorm(draw(C), draw(C), EPS) if post else None
    return Block(recorded, 3 * draw(B, queries, C), layer_norm, own)


BLOCKS = {
    "post-LN": {},
    "pre-LN": {"post": False},
    "causal": {"causal": True},
    "causal pre-LN": {"causal": True, "post": False},
    "cross": {"own": False, "keys": 5},
    "cross pre-LN": {"own": False, "keys": 5, "post": False},
    "no heads": {"heads": 0},
    "no heads pre-LN": {"heads": 0, "post": False},
}


@pytest.fixture(params=BLOCKS)
def block(request):
    return make_block(**BLOCKS[request.param])


def slow_attended(block: Block, b: int, i: int, j: int) -> torch.Tensor:
    """A_ij = Σ_h α_h[i,j] f_h(x_j), (C,)."""
    recorded = block.recorded
    total = torch.zeros(C)
    for h in range(recorded.weights.shape[1]):
        f = sum(recorded.values[b, h, j, d] * recorded.out_weight[h, d] for d in range(D))
        total = total + recorded.weights[b, h, i, j] * f
    return total


def slow_terms(block: Block, b: int, i: int) -> tuple[dict, torch.Tensor, torch.Tensor]:
    """F_i(x_j) by key j, with the residual of source–target attention at "x"; constant; output."""
    keys = block.recorded.weights.shape[3]
    z = {j: slow_attended(block, b, i, j) for j in range(keys)}
    place = i if block.self_attention else "x"
    z[place] = z.get(place, torch.zeros(C)) + block.residual[b, i]
    bias = block.recorded.out_bias
    summed = sum(z.values()) + bias
    if block.layer_norm is None:
        return z, bias, summed
    gain, shift, eps = block.layer_norm
    output = torch.nn.functional.layer_norm(summed, (C,), gain, shift, eps)
    mean = summed.sum() / C
    sigma = (((summed - mean) ** 2).sum() / C + eps) ** 0.5
    terms = {j: gain * (u - u.sum() / C) / sigma for j, u in z.items()}
    constant = gain * (bias - bias.sum() / C) / sigma + shift
    return terms, constant, output


def test_terms_and_constant_add_up_to_the_blocks_output(block):
    for b in range(B):
        for i in range(T):
            terms, constant, output = slow_terms(block, b, i)
            assert_close(sum(terms.values()) + constant, output)
            assert_close(block.constant.expand(B, T, C)[b, i], constant)
            assert_close(block.output[b, i], output)


def slow_ratio(own: torch.Tensor, context: torch.Tensor) -> float:
    total = own.norm() + context.norm()
    return float(context.norm() / total) if total else 0.0


def slow_ratios(block: Block, b: int, i: int) -> list[float]:
    """The five analyses of Kobayashi et al. (2021), in the order of ANALYSES."""
    keys = block.recorded.weights.shape[3]
    others = [j for j in range(keys) if not (block.self_attention and j == i)]
    nothing = torch.zeros(C)
    attended = {j: slow_attended(block, b, i, j) for j in range(keys)}
    own = attended[i] if block.self_attention else nothing
    context = sum((attended[j] for j in others), nothing)
    heads = block.recorded.weights.shape[1]
    mean = block.recorded.weights[b, :, i].sum(0) / max(1, heads)
    own_weight = mean[i] if block.self_attention else torch.tensor(0.0)
    context_weight = sum((mean[j] for j in others), torch.tensor(0.0))
    terms, _, _ = slow_terms(block, b, i)
    own_term = terms[i if block.self_attention else "x"]
    return [
        slow_ratio(own_weight, context_weight),
        slow_ratio(own, context),
        slow_ratio(0.5 * own_weight + 0.5, 0.5 * context_weight),
        slow_ratio(own + block.residual[b, i], context),
        slow_ratio(own_term, sum((terms[j] for j in others), nothing)),
    ]


def test_mixing_ratios_are_those_of_the_paper(block):
    ratios = mixing_ratios(block)
    assert ratios.shape == (len(ANALYSES), B, T)
    for b in range(B):
        for i in range(T):
            assert_close(ratios[:, b, i], torch.tensor(slow_ratios(block, b, i)))


def test_pair_norms_are_those_of_the_materialised_terms(block):
    pairs, own = pair_norms(block)
    keys = block.recorded.weights.shape[3]
    for b in range(B):
        for i in range(T):
            terms, _, _ = slow_terms(block, b, i)
            norms = torch.stack([terms[j].norm() for j in range(keys)])
            assert_close(pairs[b, i], norms)
            assert_close(own[b, i], terms[i if block.self_attention else "x"].norm())
