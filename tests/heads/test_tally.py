import numpy as np

from fairseq_normalign.heads.attention_pass import Tally
from fairseq_normalign.names import Head


def test_means_of_batches():
    tally = Tally()
    tally.add(("encoder", 0), np.array([1.0, 2.0]), 2)
    tally.add(("encoder", 0), np.array([5.0, 1.0]), 1)
    tally.add(("cross", 1), np.array([]), 3)
    tally.add(("decoder", 0), np.array([0.0]), 0)
    assert tally.means() == {Head("encoder", 0, 0): 2.0, Head("encoder", 0, 1): 1.0}
