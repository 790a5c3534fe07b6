import numpy as np
import pytest
import torch

from fairseq_normalign.attention.recorder import check_finite
from fairseq_normalign.errors import InputError


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_finite_numbers_pass(dtype):
    check_finite(torch.full((2, 3), torch.finfo(dtype).max, dtype=dtype), ["line 1", "line 2"])
    check_finite(torch.zeros(0, 3), [])


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_the_first_sentence_with_others_is_named(bad):
    numbers = np.zeros((3, 2, 2))
    numbers[1:, 0, 1] = bad
    with pytest.raises(InputError, match=r"^line 7: the model gives numbers that are not finite"):
        check_finite(numbers, ["line 4", "line 7", "line 9"])
