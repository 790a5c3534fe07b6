"""An alignment head against loops in the notation of Chen et al. (2020)."""

import math

import torch

from fairseq_normalign.attention.trained_head import (
    AlignmentHead,
    link_loss,
    log_shares,
    with_neighbours,
)

B, T, S, Q, K, D = 2, 3, 4, 5, 6, 7


def example():
    generator = torch.Generator().manual_seed(1)
    head = AlignmentHead.random(Q, K, width=D, generator=generator)
    head = head._replace(query_bias=torch.rand(D, generator=generator))
    queries = torch.randn(B, T, Q, generator=generator)
    keys = torch.randn(B, S, K, generator=generator)
    padding = torch.tensor([[False] * S, [False, False, True, True]])
    return head, queries, keys, padding


def test_shares_are_those_of_one_query_and_one_key_at_a_time():
    head, queries, keys, padding = example()
    shares = log_shares(head, queries, keys, padding).exp()
    for b in range(B):
        for t in range(T):
            scores = {}
            for s in range(S):
                if not padding[b, s]:
                    query = head.query @ queries[b, t] + head.query_bias
                    scores[s] = math.exp(float(query @ (head.key @ keys[b, s])) / math.sqrt(D))
            for s in range(S):
                expected = scores.get(s, 0.0) / sum(scores.values())
                assert math.isclose(float(shares[b, t, s]), expected, rel_tol=1e-4, abs_tol=1e-7)


def test_a_bias_of_keys_would_move_nothing():
    head, queries, keys, padding = example()
    projected = queries @ head.query.t() + head.query_bias
    scores = projected @ (keys @ head.key.t() + torch.ones(D)).transpose(1, 2) / math.sqrt(D)
    expected = scores.masked_fill(padding.unsqueeze(1), -math.inf).log_softmax(-1)
    shares = log_shares(head, queries, keys, padding)
    torch.testing.assert_close(shares, expected, rtol=1e-4, atol=1e-5)


def test_loss_is_that_of_the_share_of_all_links_of_a_row_together():
    head, queries, keys, padding = example()
    shares = log_shares(head, queries, keys, padding)
    links = torch.zeros(B, T, S, dtype=torch.bool)
    links[0, 0, [1, 3]] = links[0, 2, 0] = links[1, 1, 1] = True
    weights = torch.tensor([[1.0, 0.0, 0.3], [0.0, 1.0, 0.0]])
    total = 0.0
    for b in range(B):
        for t in range(T):
            share = sum(math.exp(shares[b, t, s]) for s in range(S) if links[b, t, s])
            if weights[b, t]:
                total -= float(weights[b, t]) * math.log(share)
    expected = total / 2.3
    assert math.isclose(float(link_loss(shares, links, weights)), expected, rel_tol=1e-5)


def test_rows_that_count_nothing_have_no_loss_and_no_gradient():
    head, queries, keys, padding = example()
    trained = AlignmentHead(*[part.requires_grad_() for part in head])
    shares = log_shares(trained, queries, keys, padding)
    loss = link_loss(shares, torch.zeros(B, T, S, dtype=torch.bool), torch.zeros(B, T))
    loss.backward()
    assert loss.item() == 0
    assert all(float(part.grad.abs().sum()) == 0 for part in trained)


def test_gradients_are_finite_where_keys_are_padding():
    head, queries, keys, padding = example()
    trained = AlignmentHead(*[part.requires_grad_() for part in head])
    links = ~padding.unsqueeze(1).expand(B, T, S)
    link_loss(log_shares(trained, queries, keys, padding), links, torch.ones(B, T)).backward()
    assert all(bool(part.grad.isfinite().all()) for part in trained)


def test_neighbours_are_the_states_before_and_behind():
    states = torch.randn(B, T, Q)
    rows = with_neighbours(states)
    zeros = torch.zeros(Q)
    for b in range(B):
        for t in range(T):
            before = states[b, t - 1] if t > 0 else zeros
            behind = states[b, t + 1] if t < T - 1 else zeros
            assert torch.equal(rows[b, t], torch.cat([states[b, t], before, behind]))


def test_the_same_seed_is_the_same_head():
    heads = [
        AlignmentHead.random(Q, K, width=D, generator=torch.Generator().manual_seed(seed))
        for seed in (3, 3, 4)
    ]
    assert torch.equal(heads[0].query, heads[1].query)
    assert not torch.equal(heads[0].query, heads[2].query)
