import pytest
import torch

from fairseq_normalign.attention import contributions
from fairseq_normalign.attention.contributions import Recorded
from tests.attention.test_block import B, C, D, H, T, assert_close, make_block
from tests.conftest import attention_output

S = 5


@pytest.fixture
def recorded() -> Recorded:
    return make_block(own=False, keys=S).recorded


def slow_vectors(recorded: Recorded) -> torch.Tensor:
    """α_h[t,s] f_h(x_s), element by element, (B, H, T, S, C)."""
    vectors = torch.zeros(B, H, T, S, C)
    for b, h, t, s in torch.cartesian_prod(*map(torch.arange, (B, H, T, S))).tolist():
        f = sum(recorded.values[b, h, s, d] * recorded.out_weight[h, d] for d in range(D))
        vectors[b, h, t, s] = recorded.weights[b, h, t, s] * f
    return vectors


def test_norms_equal_those_of_the_materialised_vectors(recorded):
    vectors = slow_vectors(recorded)
    norms = recorded.norms
    assert_close(norms.weighted, vectors.norm(dim=-1))
    assert_close(norms.summed, vectors.sum(1).norm(dim=-1))
    assert_close(norms.transformed, (vectors / recorded.weights[..., None])[:, :, 0].norm(dim=-1))


def test_vectors(recorded):
    vectors = slow_vectors(recorded)
    assert_close(recorded.head_vectors(), vectors)
    assert_close(recorded.summed_vectors(), vectors.sum(1))
    assert_close(attention_output(recorded), vectors.sum((1, 3)) + recorded.out_bias)


def test_opposite_heads_cancel_in_the_sum_only():
    values = torch.tensor([[[[1.0]], [[-1.0]]]])  # (1, 2, 1, 1)
    weights, out_weight = torch.full((1, 2, 1, 1), 0.5), torch.ones(2, 1, 3)
    norms = contributions.norms(weights, values, out_weight)
    assert norms.summed.item() == 0
    assert_close(norms.weighted.flatten(), torch.full((2,), 0.5 * 3**0.5))


def test_half_precision_is_computed_in_single(recorded):
    half = Recorded(
        recorded.weights.half(), 200 * recorded.values.half(), 200 * recorded.out_weight.half()
    )
    assert half.norms.summed.dtype == torch.float32
    assert half.norms.summed.isfinite().all()  # 16-bit squares would not be


def test_blocks_of_keys_change_nothing(recorded, monkeypatch):
    whole = recorded.norms
    # 3 keys, which do not divide the B·S of them.
    monkeypatch.setattr(contributions, "BLOCK", 3 * H * C)
    in_blocks = contributions.norms(recorded.weights, recorded.values, recorded.out_weight)
    for norm, expected in zip(in_blocks, whole, strict=True):
        assert_close(norm, expected)


def test_gradients_pass_through_norms_and_vectors(recorded, monkeypatch):
    monkeypatch.setattr(contributions, "BLOCK", 3 * H * C)
    parts = [
        part.double().requires_grad_()
        for part in (recorded.weights, recorded.values, recorded.out_weight)
    ]
    assert torch.autograd.gradcheck(lambda *parts: tuple(contributions.norms(*parts)), parts)
    for vectors in (Recorded.summed_vectors, Recorded.head_vectors):
        assert torch.autograd.gradcheck(lambda *parts: vectors(Recorded(*parts)), parts)  # noqa: B023
