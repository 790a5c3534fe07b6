"""Roles of heads that were made to have them, and slow twins on random weights."""

import numpy as np
import pytest
import torch

from fairseq_normalign.heads.attention_pass import cells
from fairseq_normalign.heads.attention_scores import (
    confidences,
    entropies,
    favourite,
    last_hits,
    norm_sums,
    offsets,
    place_of,
    position_counts,
)
from fairseq_normalign.heads.rare_tokens import rare_hits, rare_influence, rarest

MARK, PAD = -1, -2
WORDS = torch.tensor(
    [[0, 1, 2, 2, 3, MARK], [0, 1, 2, MARK, PAD, PAD], [0, MARK, PAD, PAD, PAD, PAD]]
)


def looking_at(target, words=WORDS):
    """Weights of one head whose row t gives 0.6 to ``target(t, last)``, and the rest evenly.

    The target is cut to the sentence.
    """
    weights = torch.zeros(len(words), 1, words.shape[1], words.shape[1])
    for b, line in enumerate(words.tolist()):
        length = sum(word != PAD for word in line)
        for t in range(length):
            weights[b, 0, t, :length] = 0.4 / length
            weights[b, 0, t, min(max(target(t, length - 1), 0), length - 1)] += 0.6
    return weights


def random_weights(heads=2):
    torch.manual_seed(3)
    return torch.rand(len(WORDS), heads, WORDS.shape[1], WORDS.shape[1])


def candidates(b):
    return [s for s, word in enumerate(WORDS[b].tolist()) if word >= 0]


def slow_maximum(weights, b, head, t):
    return max(candidates(b), key=lambda s: weights[b, head, t, s].item())


# The third sentence has one word: no choice.
CHOOSING = [*((0, t) for t in candidates(0)), *((1, t) for t in candidates(1))]


def test_positions_equal_the_slow_twin():
    weights = random_weights()
    expected = [[slow_maximum(weights, b, head, t) - t for b, t in CHOOSING] for head in (0, 1)]
    assert offsets(weights, cells(WORDS, WORDS)).tolist() == expected


def test_a_head_that_looks_back():
    relative = offsets(looking_at(lambda t, last: t - 1), cells(WORDS, WORDS))
    (counts,) = position_counts(relative.numpy())
    # First words have none before them, and then look at themselves.
    assert favourite(counts) == (-1, 6 / 8)
    assert [counts[place_of(offset)] for offset in (-1, 0, 1)] == [6, 2, 0]


def test_the_nearest_of_several_favourites():
    (counts,) = position_counts(np.array([[2, -3, 2, -3, 0]]))
    assert counts.tolist() == [1, 0, 0, 0, 2, 2]
    assert favourite(counts) == (2, 2 / 5)


def test_a_head_of_the_decoder_that_looks_back():
    """The start is no word: the first word has no choice, the second can look back."""
    words = torch.tensor([[MARK, 0, 1, 2]])
    relative = offsets(
        looking_at(lambda t, last: t - 1, words).tril(), cells(words, words, causal=True)
    )
    assert relative.tolist() == [[-1, -1]]


def test_positions_without_any_case():
    alone = torch.tensor([[0, MARK]])
    relative = offsets(torch.rand(1, 2, 2, 2), cells(alone, alone))
    assert position_counts(relative.numpy()).tolist() == [[0, 0, 0]] * 2


def test_the_last_token_is_eos():
    assert last_hits(looking_at(lambda t, last: last), cells(WORDS, WORDS)).tolist() == [8]
    assert last_hits(looking_at(lambda t, last: last - 1), cells(WORDS, WORDS)).tolist() == [0]


FREQUENCIES = torch.tensor([[9.0, 5, 1, 3, 7, 0], [4, 2, 2, 0, 0, 0], [1, 0, 0, 0, 0, 0]])


def test_rarest_tokens():
    keys = WORDS.ge(0)
    assert rarest(FREQUENCIES, keys).nonzero().tolist() == [[0, 2], [1, 1], [1, 2], [2, 0]]
    found = rarest(FREQUENCIES, keys, rank=2).nonzero().tolist()
    assert found == [[0, 2], [0, 3], [1, 0], [1, 1], [1, 2], [2, 0]]


def slow_rare(weights, head, rare, sentences):
    """Maxima on rare tokens, their number by chance, and words."""
    words = [(b, t) for b, t in CHOOSING if b in sentences]
    hits = [rare[b, slow_maximum(weights, b, head, t)].item() for b, t in words]
    chance = [rare[b].sum().item() / len(candidates(b)) for b, _ in words]
    return [sum(hits), sum(chance), len(words)]


@pytest.mark.parametrize("sentences", [[0, 1], [1], []])
def test_rare_hits_equal_the_slow_twin(sentences):
    weights, rare = random_weights(), rarest(FREQUENCIES, WORDS.ge(0))
    examined = torch.tensor([b in sentences for b in range(3)])
    found = rare_hits(weights, cells(WORDS, WORDS), rare, examined).tolist()
    for head in (0, 1):
        assert found[head] == pytest.approx(slow_rare(weights, head, rare, sentences), rel=1e-4)


def test_influence_is_1_for_tokens_that_count_alike():
    words, rare = np.array([True, True, True, False]), np.array([False, True, False, False])
    even = np.array([[1.0, -1, 1, 9], [-2, 2, 2, 0]])  # the last token is a mark
    assert rare_influence(even, words, rare) == pytest.approx(1)
    # 3 of 6 among three tokens, 0 of 6, and a prediction without relevance of words
    uneven = np.array([[1.0, -3, 2, 5], [3, 0, 3, 5], [0, 0, 0, 1]])
    assert rare_influence(uneven, words, rare) == pytest.approx((3 / 2 + 0) / 2)
    two = np.array([True, True, False, False])
    assert rare_influence(uneven[:1], words, two) == pytest.approx(2 / 2)


def test_influence_that_says_nothing():
    one = np.array([True, False])
    assert rare_influence(np.array([[1.0, 2]]), one, one) is None
    assert rare_influence(np.zeros((2, 2)), np.array([True, True]), one) is None
    assert rare_influence(np.ones((1, 1)), np.array([False]), np.array([False])) is None


def test_no_heads():
    weights, seen = random_weights(heads=0), cells(WORDS, WORDS)
    assert offsets(weights, seen).shape[0] == last_hits(weights, seen).shape[0] == 0
    for function in (confidences, entropies, norm_sums):
        assert function(weights, seen).shape == (0, 2)
    rare = rarest(FREQUENCIES, WORDS.ge(0))
    assert rare_hits(weights, seen, rare, torch.ones(3, dtype=torch.bool)).shape == (0, 3)
