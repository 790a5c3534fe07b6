import pytest
import torch

from fairseq_normalign.layers.projection import principal_plane


def test_a_plane_in_space_is_found_whole():
    flat = torch.randn(30, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    turn, _ = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64))
    plane, share = principal_plane(flat @ turn[:2] + 3)
    assert share == pytest.approx(1)
    torch.testing.assert_close(torch.pdist(torch.from_numpy(plane)), torch.pdist(flat))


def test_the_first_component_has_the_largest_variance():
    states = torch.randn(50, 4, generator=torch.Generator().manual_seed(0)) * torch.arange(1.0, 5)
    plane, share = principal_plane(states)
    values = torch.linalg.eigvalsh(torch.cov(states.double().T)).flip(0)
    assert plane.var(0, ddof=1) == pytest.approx(values[:2].numpy(), rel=1e-5)
    assert share == pytest.approx(float(values[:2].sum() / values.sum()), rel=1e-5)


def test_equal_states_are_one_point():
    plane, share = principal_plane(torch.ones(4, 3))
    assert (plane == 0).all()
    assert share == 0
