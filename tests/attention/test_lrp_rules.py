"""Each rule against a slow twin: every z_ji of a full Jacobian, summed up in loops."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.autograd.functional import jacobian

from fairseq_normalign.attention import lrp_rules as module
from fairseq_normalign.attention.lrp_rules import (
    ALPHA,
    BETA,
    EPS,
    RULES,
    AttnLRP,
    Epsilon,
    Voita,
    contributions,
    head_shares,
    rule_set,
)

B, P, T, S, C, N, H, D = 2, 3, 4, 5, 6, 7, 2, 3
LN_EPS = 1e-5


@pytest.fixture
def random():
    generator = torch.Generator().manual_seed(0)
    return lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)


def epsilon_share(terms, bias):
    total = sum(terms) + sum(bias)
    total += EPS if total >= 0 else -EPS
    return [term / total for term in terms]


def voita_share(terms, bias):
    """Positive and negative terms apart; a bias is one more term, whose share goes to nobody."""
    up = sum(max(term, 0) for term in (*terms, *bias)) + EPS
    down = sum(min(term, 0) for term in (*terms, *bias)) - EPS
    return [ALPHA * max(term, 0) / up + BETA * min(term, 0) / down for term in terms]


def slow(function, x, relevance, share):
    """Relevance of x, flat, from that of function(x), flat.

    z_ji = ∂y_j/∂x_i x_i and what function(0) adds, which is a term of its own.
    """
    all_terms = (jacobian(function, x) * x).tolist()
    constants = function(torch.zeros_like(x)).tolist()
    of_x = [0.0] * len(x)
    for terms, constant, of_output in zip(all_terms, constants, relevance.tolist(), strict=True):
        for i, part in enumerate(share(terms, [constant])):
            of_x[i] += of_output * part
    return torch.tensor(of_x, dtype=x.dtype)


def rescaled(parts, relevance):
    return parts * relevance.abs().sum() / parts.abs().sum()


def slow_by_token(function, x, relevance, share, *, rescale):
    """The same for each sentence, prediction and token: function takes the vector of a token."""
    of_x = torch.zeros(*relevance.shape[:3], x.shape[-1], dtype=x.dtype)
    for b, p, t in np.ndindex(*relevance.shape[:3]):
        of_x[b, p, t] = slow(function, x[b, t], relevance[b, p, t], share)
        if rescale:
            of_x[b, p, t] = rescaled(of_x[b, p, t], relevance[b, p, t])
    return of_x


def start(rules, y, relevance):
    """What a rule set passes to an output that has some relevance."""
    return relevance if rules.name == "voita" else relevance / y.unsqueeze(1)


def through_linear(rules, x, weight, bias, relevance):
    """Relevance of x from that of W x + b."""
    y = F.linear(x, weight, bias)
    return rules.relevance(x, rules.linear(x, y, weight, bias, start(rules, y, relevance)))


SHARES = {"voita": voita_share, "epsilon": epsilon_share, "attnlrp": epsilon_share}


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("name", RULES)
def test_linear(name, biased, random):
    x, weight = random(B, T, C), random(N, C)
    bias = random(N) * biased
    relevance = random(B, P, T, N).abs()
    of_x = through_linear(rule_set(name), x, weight, bias, relevance)
    expected = slow_by_token(
        lambda v: F.linear(v, weight, bias), x, relevance, SHARES[name], rescale=name == "voita"
    )
    torch.testing.assert_close(of_x, expected)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("unused", [0, 0.3, 0.9, 1])
def test_feed_forward(name, unused, random):
    """As two linear maps, however many units are 0."""
    units = 30
    x, inner = random(B, T, C), random(B, T, units)
    inner[torch.rand(B, T, units, generator=torch.Generator().manual_seed(1)) < unused] = 0
    first, second = (random(units, C), random(units)), (random(N, units), random(N))
    relevance = random(B, P, T, N)
    rules = rule_set(name)
    expected = through_linear(rules, x, *first, through_linear(rules, inner, *second, relevance))
    states = x, F.linear(x, *first), inner, F.linear(inner, *second)
    passed = rules.feed_forward(states, first, second, start(rules, states[-1], relevance))
    of_x = rules.relevance(x, passed)
    torch.testing.assert_close(of_x, expected)


@pytest.mark.parametrize("name", RULES)
def test_add(name, random):
    u, w, relevance = random(B, T, C), random(B, T, C), random(B, P, T, C).abs()
    expected = slow_by_token(
        lambda v: v[:C] + v[C:],
        torch.cat([u, w], -1),
        relevance,
        SHARES[name],
        rescale=name == "voita",
    )
    rules = rule_set(name)
    of_both = rules.add(u, w, start(rules, u + w, relevance))
    of_each = [rules.relevance(part, passed) for part, passed in zip((u, w), of_both, strict=True)]
    torch.testing.assert_close(torch.cat(of_each, -1), expected)


@pytest.mark.parametrize("name", RULES)
def test_logit(name, random):
    x, rows, bias = random(B, T, C), random(B, T, C), random(B, T)
    rules = rule_set(name)
    of_x = rules.relevance(x, rules.logit(x, rows, bias).unsqueeze(1))[:, 0]
    for b, t in np.ndindex(B, T):
        one = torch.ones(1, 1, 1, 1, dtype=x.dtype)
        row = x[b, t][None, None], rows[b, t][None], bias[b, t][None]
        single = through_linear(rules, *row, one)
        torch.testing.assert_close(of_x[b, t], single[0, 0, 0])


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("block", [1, 3 * C * C, 1 << 20])
def test_layer_norm(name, block, random, monkeypatch):
    monkeypatch.setattr(module, "CACHED", block)
    x, weight, bias, relevance = random(B, T, C), random(C), random(C), random(B, P, T, C).abs()
    rules = rule_set(name)
    passed = start(rules, F.layer_norm(x, (C,), weight, bias, LN_EPS), relevance)
    of_x = rules.relevance(x, rules.layer_norm(x, weight, bias, LN_EPS, passed))
    if name == "voita":
        expected = slow_by_token(
            lambda v: F.layer_norm(v, (C,), weight, bias, LN_EPS),
            x,
            relevance,
            voita_share,
            rescale=True,
        )
    else:
        expected = torch.zeros_like(of_x)
        for b, p, t in np.ndindex(B, P, T):
            sigma = (((x[b, t] - x[b, t].mean()) ** 2).mean() + LN_EPS).sqrt()
            centred = lambda v, sigma=sigma: weight * (v - v.mean()) / sigma + bias  # noqa: E731
            expected[b, p, t] = slow(centred, x[b, t], relevance[b, p, t], epsilon_share)
    torch.testing.assert_close(of_x, expected)


@pytest.fixture
def attention(random):
    """q, k, v, and what is masked: another key for each sentence."""
    masked = torch.zeros(B, 1, 1, S, dtype=torch.bool)
    masked[0, ..., -1] = masked[1, ..., 0] = True
    q, k, v = random(B, H, T, D), random(B, H, S, D), random(B, H, S, D)
    return q, k, v, masked, random(B, P, H, T, D).abs()


def softmax(q, k, masked):
    return (q @ k.transpose(-2, -1)).masked_fill(masked, -math.inf).softmax(-1)


@pytest.mark.parametrize("block", [1, 2 * B * H * D * (S + D), 1 << 20])
def test_voita_attention(attention, block, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", block)
    q, k, v, masked, relevance = attention
    of_inputs = torch.cat(
        [part.flatten(2) for part in Voita().attention(q, k, v, softmax(q, k, masked), relevance)],
        -1,
    )
    for b, p in np.ndindex(B, P):
        parts = [[], [], []]
        for h in range(H):  # heads do not meet

            def function(x, b=b):
                q, k, v = x.split([T * D, S * D, S * D])
                return (softmax(q.view(T, D), k.view(S, D), masked[b, 0]) @ v.view(S, D)).flatten()

            x = torch.cat([part[b, h].flatten() for part in (q, k, v)])
            of_head = slow(function, x, relevance[b, p, h].flatten(), voita_share)
            for part, of_part in zip(parts, of_head.split([T * D, S * D, S * D]), strict=True):
                part.append(of_part)
        expected = torch.cat([torch.cat(part) for part in parts])
        torch.testing.assert_close(of_inputs[b, p], rescaled(expected, relevance[b, p]))


def through_attention(rules, q, k, v, weights, relevance):
    """Relevance of queries, keys and values."""
    passed = rules.attention(q, k, v, weights, start(rules, weights @ v, relevance))
    return [
        None if part is None else part if rules.name == "voita" else part * x.unsqueeze(1)
        for x, part in zip((q, k, v), passed, strict=True)
    ]


def test_epsilon_attention(attention):
    q, k, v, masked, relevance = attention
    weights = softmax(q, k, masked)
    of_q, of_k, of_v = through_attention(Epsilon(), q, k, v, weights, relevance)
    assert of_q is of_k is None
    for b, p, h in np.ndindex(B, P, H):
        function = lambda x, b=b, h=h: (weights[b, h] @ x.view(S, D)).flatten()  # noqa: E731
        expected = slow(function, v[b, h].flatten(), relevance[b, p, h].flatten(), epsilon_share)
        torch.testing.assert_close(of_v[b, p, h].flatten(), expected)


def stable(number):
    return number + (EPS if number >= 0 else -EPS)


def slow_product(a, b, relevance):
    """Through a @ b: an ε rule over the terms of a sum, and half of each term to either factor."""
    of_a, of_b, out = torch.zeros_like(a), torch.zeros_like(b), a @ b
    for i, j, k in np.ndindex(*a.shape, b.shape[1]):
        part = a[i, j] * b[j, k] * relevance[i, k] / stable(2 * out[i, k])
        of_a[i, j] += part
        of_b[j, k] += part
    return of_a, of_b


def test_attnlrp_attention(attention):
    q, k, v, masked, relevance = attention
    weights = softmax(q, k, masked)
    of_inputs = through_attention(AttnLRP(), q, k, v, weights, relevance)
    for b, p, h in np.ndindex(B, P, H):
        of_weights, of_v = slow_product(weights[b, h], v[b, h], relevance[b, p, h])
        logits = (q[b, h] @ k[b, h].T).masked_fill(masked[b, 0], 0.0)
        of_logits = torch.zeros_like(logits)
        for t, s in np.ndindex(T, S):
            of_logits[t, s] = logits[t, s] * (
                of_weights[t, s] - weights[b, h, t, s] * of_weights[t].sum()
            )
        of_q, of_k = slow_product(q[b, h], k[b, h].T, of_logits)
        for part, expected in zip(of_inputs, (of_q, of_k.T, of_v), strict=True):
            torch.testing.assert_close(part[b, p, h], expected)


def test_voita_gives_what_one_token_cannot_pass_to_the_others(random):
    x, weight, relevance = random(1, 2, C), random(N, C), random(1, 1, 2, N).abs()
    x[0, 0] = 0
    of_x = through_linear(Voita(), x, weight, random(N), relevance)
    assert not of_x[0, 0, 0].any()
    torch.testing.assert_close(of_x.sum(), relevance.sum())


@pytest.mark.parametrize("name", RULES)
def test_epsilon_is_a_parameter_of_every_rule(name, random, attention, monkeypatch):
    """A large ε, which the twins have, too."""
    monkeypatch.setitem(globals(), "EPS", 0.3)
    rules = rule_set(f"{name}:0.3")
    x, weight, bias, relevance = random(B, T, C), random(N, C), random(N), random(B, P, T, N).abs()
    expected = slow_by_token(
        lambda v: F.linear(v, weight, bias), x, relevance, SHARES[name], rescale=name == "voita"
    )
    torch.testing.assert_close(through_linear(rules, x, weight, bias, relevance), expected)
    q, k, v, masked, relevance = attention
    weights = softmax(q, k, masked)
    large = through_attention(rules, q, k, v, weights, relevance)[2]
    default = through_attention(rule_set(name), q, k, v, weights, relevance)[2]
    assert (large - default).abs().max() > 1e-3


def test_head_shares():
    relevance = torch.tensor([[[1.0, -2.0], [0.5, 0.5]], [[0.0, 0.0], [0.0, 0.0]]])  # (P, H, D)
    shares = head_shares(relevance[None, :, :, None])  # (B, P, H, T, D)
    torch.testing.assert_close(shares, torch.tensor([[[0.75, 0.25], [0.0, 0.0]]]))


def test_contributions():
    source = np.array([[0.25, 0.25], [0.3, 0.1], [0.5, -0.5]])
    prefix = np.array([[0.5, 0.0], [0.3, 0.3], [0.0, 0.0]])
    contributed = contributions(source, prefix)
    np.testing.assert_allclose(contributed.source, [0.5, 0.4, 1.0])
    quarters = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    np.testing.assert_allclose(contributed.source_entropy, [math.log(2), quarters, math.log(2)])
    np.testing.assert_allclose(contributed.prefix_entropy, [0.0, math.log(2), math.nan])
