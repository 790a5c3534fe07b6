import torch

from fairseq_normalign.analysis.methods import METHODS
from fairseq_normalign.norms.contributions import Recorded

RECORDED = Recorded(torch.rand(2, 3, 4, 5), torch.randn(2, 3, 5, 2), torch.randn(3, 2, 6))


def test_every_method_gives_a_matrix_for_all_heads_and_for_one():
    for method in METHODS.values():
        assert method(RECORDED).shape == method(RECORDED, 1).shape == (2, 4, 5)


def test_one_head():
    torch.testing.assert_close(METHODS["weights"](RECORDED, 2), RECORDED.weights[:, 2])
    alone = Recorded(RECORDED.weights[:, 2:], RECORDED.values[:, 2:], RECORDED.out_weight[2:])
    torch.testing.assert_close(METHODS["norms"](RECORDED, 2), METHODS["norms"](alone))
    torch.testing.assert_close(METHODS["head-norms"](RECORDED, 2), METHODS["norms"](alone))


def test_head_norms_are_the_mean_over_heads():
    heads = torch.stack([METHODS["norms"](RECORDED, head) for head in range(3)])
    torch.testing.assert_close(METHODS["head-norms"](RECORDED), heads.mean(0))
