import numpy as np
import torch

from fairseq_normalign.layers.clustering import kmeans, move, nearest_centres


def slow_move(centres, counts, batch):
    """Sculley (2010), Algorithm 1: assign all of a batch, then take a step for each state."""
    assigned = []
    for state in batch:
        squares = [float((state - centre).square().sum()) for centre in centres]
        assigned.append(squares.index(min(squares)))
    for state, place in zip(batch, assigned, strict=True):
        counts[place] += 1
        rate = 1 / counts[place]
        centres[place] = (1 - rate) * centres[place] + rate * state


def test_centres_move_as_in_the_paper():
    random = torch.Generator().manual_seed(0)
    fast = slow = torch.randn(4, 3, generator=random)
    fast, slow = fast.clone(), slow.clone()
    fast_counts, slow_counts = torch.zeros(4), torch.zeros(4)
    for _ in range(3):
        batch = torch.randn(10, 3, generator=random)
        move(fast, fast_counts, batch)
        slow_move(slow, slow_counts, batch)
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5)
    assert fast_counts.tolist() == slow_counts.tolist()


def test_a_centre_without_states_stays():
    centres = torch.tensor([[0.0], [100.0]])
    move(centres, torch.zeros(2), torch.tensor([[1.0], [2.0]]))
    assert centres.tolist() == [[1.5], [100.0]]


def test_states_that_lie_apart_are_told_apart():
    """Of clusters that began in one heap, no other heap is ever split."""
    labels = np.repeat(np.arange(3), 400)
    heaps = torch.tensor([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0]])
    states = heaps[labels] + torch.randn(1200, 2, generator=torch.Generator().manual_seed(0))
    clusters = kmeans(states, 12, np.random.default_rng(0))
    for cluster in np.unique(clusters):
        assert len(np.unique(labels[clusters == cluster])) == 1


def test_the_seed_decides():
    states = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    first, again = (kmeans(states, 9, np.random.default_rng(5)) for _ in range(2))
    assert (first == again).all()
    assert (first != kmeans(states, 9, np.random.default_rng(6))).any()


def test_each_state_is_with_the_nearest_centre():
    states = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    centres = states[:5] + 0.1
    slow = [int((state - centres).norm(dim=1).argmin()) for state in states]
    assert nearest_centres(states, centres).tolist() == slow
