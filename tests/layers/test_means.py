import numpy as np
import torch

from fairseq_normalign.layers.means import add_means, macro, micro
from fairseq_normalign.runs.joins import Gathered


def test_micro_and_macro_means():
    sums = Gathered()
    # Two sentences, of three tokens and of one, and another batch with one more.
    values = torch.tensor([[[1.0, 2.0, 6.0], [4.0, 99.0, 99.0]]])
    both = torch.cat([values, -values]).unsqueeze(0)
    add_means(sums, "x", both, torch.tensor([[0, 1, 1], [1, -1, -1]]), 3)
    add_means(sums, "x", torch.tensor([[[[3.0]], [[-3.0]]]]), torch.tensor([[1]]), 3)
    found = micro(sums.arrays, "x")[0], macro(sums.arrays, "x")[0]
    np.testing.assert_allclose(found[0][0], [1, (2 + 6 + 4 + 3) / 4, np.nan, 16 / 5])
    np.testing.assert_allclose(found[1][0], [1, (4 + 4 + 3) / 3, np.nan, (3 + 4 + 3) / 3])
    np.testing.assert_allclose(found[1][1], -found[1][0])
    assert sums.arrays["x.tokens.sum"].tolist() == [1, 4, 0, 5]
    assert sums.arrays["x.sentences.sum"].tolist() == [1, 3, 0, 3]
    assert sums.arrays["x.low"].tolist() == [1, -6]
    assert sums.arrays["x.high"].tolist() == [6, -1]
