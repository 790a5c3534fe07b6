"""Confidence against loops over the definition, with marks, padding and the decoder's mask."""

import math

import pytest
import torch

from fairseq_normalign.heads.attention_pass import cells, choosing, maxima
from fairseq_normalign.heads.attention_scores import confidences, entropies, norm_sums, row_shares

MARK, PAD = -1, -2
SOURCE = torch.tensor([[0, 0, 1, 2, MARK], [0, MARK, PAD, PAD, PAD], [MARK, PAD, PAD, PAD, PAD]])
TARGET = torch.tensor([[MARK, 0, 1, 1], [MARK, 0, PAD, PAD], [MARK, PAD, PAD, PAD]])
KINDS = {
    "encoder": (SOURCE, SOURCE, False),
    "decoder": (TARGET, TARGET, True),
    "cross": (TARGET, SOURCE, False),
}


def attention(kind, heads=3):
    """Random weights of a kind of attention; padding and the future get nothing."""
    queries, keys, causal = KINDS[kind]
    torch.manual_seed(1)
    seen = cells(queries, keys, causal=causal)
    logits = torch.randn(len(queries), heads, queries.shape[1], keys.shape[1]) * 2
    weights = logits.masked_fill(~seen.visible.unsqueeze(1), -torch.inf).softmax(-1).nan_to_num()
    return weights, seen, queries, keys, causal


def slow(weights, queries, keys, causal, eos, of_row):
    """A number for each query that counts and each head, of the weights of the words it sees."""
    by_query = []
    for b, line in enumerate(queries.tolist()):
        for t, query in enumerate(line):
            words = [s for s, key in enumerate(keys[b].tolist()) if key >= 0]
            words = [s for s in words if not (causal and s > t)]
            if query == PAD or not words or (eos == "both" and query == MARK):
                continue
            by_query.append([of_row([head[t][s] for s in words]) for head in weights[b].tolist()])
    return torch.tensor(by_query)


def entropy(row):
    """−Σ p ln p, p = α / Σ α."""
    return -sum(weight / sum(row) * math.log(weight / sum(row)) for weight in row)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("eos", ["key", "both"])
@pytest.mark.parametrize(("function", "of_row"), [(confidences, max), (entropies, entropy)])
def test_means_equal_the_slow_twin(kind, eos, function, of_row):
    weights, seen, *rest = attention(kind)
    sums, cases = function(weights, seen, eos=eos).T
    expected = slow(weights, *rest, eos, of_row)
    assert cases.tolist() == [len(expected)] * 3
    torch.testing.assert_close(sums, expected.sum(0).double(), rtol=1e-4, atol=1e-5)


def test_entropy_of_heads_that_are_sure_even_or_look_at_no_word():
    """One word of three has all; all three have the same; </s> has all, or all but a bit."""
    seen = cells(torch.tensor([[0, 1, 2, MARK]]), torch.tensor([[0, 1, 2, MARK]]))
    rows = torch.tensor([[0, 1.0, 0, 0], [0.2, 0.2, 0.2, 0.4], [0, 0, 0, 1.0], [0, 0.01, 0, 0.99]])
    weights = rows[None, :, None].expand(1, 4, 4, 4)
    sums, cases = entropies(weights, seen).T
    even = math.log(3)
    assert (sums / cases).tolist() == pytest.approx([0, even, even, 0], abs=1e-5)


def test_norms_are_summed_over_what_is_seen():
    weights, seen, queries, keys, _ = attention("decoder")
    # Padding and future must not count, whatever is there.
    sums, counts = norm_sums(weights + 1, seen).T
    visible = [
        (b, t, s)
        for b, line in enumerate(queries.tolist())
        for t, query in enumerate(line)
        for s, key in enumerate(keys[b].tolist())
        if PAD not in (query, key) and s <= t
    ]
    assert counts[0] == len({(b, t) for b, t, _ in visible})
    expected = torch.stack([weights[b, :, t, s] + 1 for b, t, s in visible]).sum(0)
    torch.testing.assert_close(sums, expected.double(), rtol=1e-4, atol=1e-5)


def test_row_shares():
    shares = row_shares(torch.tensor([[3.0, 1.0], [0.0, 0.0]]))
    torch.testing.assert_close(shares, torch.tensor([[0.75, 0.25], [0.0, 0.0]]))


def test_maxima_take_the_first_of_equals_and_only_what_is_allowed():
    weights = torch.tensor([[[[0.5, 0.2, 0.2, 0.1]]]])
    assert maxima(weights, torch.tensor([[[False, True, True, True]]])).item() == 1
    assert maxima(weights * 0, torch.tensor([[[False, False, True, False]]])).item() == 2


def test_words_without_a_choice_do_not_choose():
    seen = cells(TARGET, TARGET, causal=True)
    assert choosing(seen).tolist() == [[False, False, True, True], [False] * 4, [False] * 4]
