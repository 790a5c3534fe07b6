import numpy as np
import torch

from fairseq_normalign.layers.means import CategoryMeans


def test_micro_and_macro_means():
    means = CategoryMeans(2, 2)
    # Two sentences, of three tokens and of one, and another batch with one more.
    values = torch.tensor([[[1.0, 2.0, 6.0], [4.0, 99.0, 99.0]]])
    means.add(torch.cat([values, -values]), torch.tensor([[0, 1, 1], [1, -1, -1]]))
    means.add(torch.tensor([[[3.0]], [[-3.0]]]), torch.tensor([[1]]))
    np.testing.assert_allclose(means.micro()[0], [1, (2 + 6 + 4 + 3) / 4, 16 / 5])
    np.testing.assert_allclose(means.macro()[0], [1, (4 + 4 + 3) / 3, (3 + 4 + 3) / 3])
    np.testing.assert_allclose(means.macro()[1], -means.macro()[0])
    assert means.tokens.tolist() == [1, 4, 5]
    assert means.sentences.tolist() == [1, 3, 3]
    assert means.low.tolist() == [1, -6]
    assert means.high.tolist() == [6, -1]


def test_a_category_without_tokens_has_no_mean():
    means = CategoryMeans(1, 2)
    means.add(torch.ones(1, 1, 2), torch.tensor([[0, 0]]))
    assert np.isnan(means.micro()[0, 1])
    assert np.isnan(means.macro()[0, 1])
